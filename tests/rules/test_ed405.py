import pytest

from envdoctor.model.facts import ContestedFolder, Unavailable
from envdoctor.model.finding import Finding
from envdoctor.rules.ed405_overwritten_package import overwritten_package
from tests.builders import a_contested_folder, a_distribution, an_environment

STATE = "capi/onnxruntime_pybind11_state.so"


def findings_with(folder: ContestedFolder, **environment: object) -> list[Finding]:
    installed = tuple(a_distribution(name, "1.23.2") for name in folder.distributions)
    return overwritten_package(
        contested_folders=(folder,), distributions=installed, environment=an_environment(**environment)
    )


def test_fires_when_one_overwrote_the_other() -> None:
    """https://github.com/microsoft/onnxruntime/issues/26996."""
    folder = a_contested_folder("onnxruntime", "onnxruntime", "onnxruntime-gpu", **{STATE: "onnxruntime"})
    [finding] = findings_with(folder)

    assert finding.message == (
        "onnxruntime 1.23.2 and onnxruntime-gpu 1.23.2 overwrote each other in `onnxruntime`: 1 file of code; most of "
        "what lies there is that of onnxruntime"
    )
    assert finding.evidence[0].source == f"onnxruntime/{STATE}"
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip uninstall --yes onnxruntime onnxruntime-gpu",
        "/opt/env/bin/python -m pip install --no-deps onnxruntime-gpu==1.23.2",
    )


@pytest.mark.parametrize(
    ("names", "owner", "kept"),
    [
        (("mmcv", "mmcv-full"), "mmcv", "mmcv-full"),
        (("opencv-contrib-python", "opencv-python"), "", "opencv-contrib-python"),
        (("opencv-python", "opencv-python-headless"), "opencv-python-headless", "opencv-python-headless"),
        (("cupy-cuda11x", "cupy-cuda12x"), "", "cupy-cuda11x"),
    ],
)
def test_keeps_the_fuller_one_or_the_last(names: tuple[str, ...], owner: str, kept: str) -> None:
    [finding] = findings_with(a_contested_folder("x", *names, **{"a.so": owner}))

    assert finding.remedy is not None
    assert finding.remedy.commands[-1].endswith(f" {kept}==1.23.2")


def test_speaks_once_of_two_that_share_several_folders() -> None:
    names = ("cupy-cuda11x", "cupy-cuda12x")
    folders = (
        a_contested_folder("cupyx", *names, **{"__init__.py": names[1]}),
        a_contested_folder("cupy", *names, **{"_core/core.so": names[1]}),
    )
    installed = (a_distribution(names[0], "13.6.0"), a_distribution(names[1], "14.2.0"))
    [finding] = overwritten_package(contested_folders=folders, distributions=installed)

    assert finding.message == (
        "cupy-cuda11x 13.6.0 and cupy-cuda12x 14.2.0 overwrote each other in `cupy` and `cupyx`: 2 files of code; most "
        "of what lies there is that of cupy-cuda12x"
    )
    assert [each.source for each in finding.evidence] == ["cupy/_core/core.so", "cupyx/__init__.py"]


def test_shows_the_first_of_many_files() -> None:
    files = {f"m{number}.py": "mmcv" for number in range(6)}
    [finding] = findings_with(a_contested_folder("mmcv", "mmcv", "mmcv-full", **files))

    assert len(finding.evidence) == 5
    assert finding.evidence[-1].value == "2 more files that both claim"


def test_gives_no_command_where_pip_cannot_be_run() -> None:
    folder = a_contested_folder("cv2", "opencv-python", "opencv-python-headless", **{"cv2.so": ""})
    [finding] = findings_with(folder, interpreter=Unavailable("a bare site-packages"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_leaves_the_wheels_of_nvidia_to_others() -> None:
    assert not findings_with(a_contested_folder("nvidia/nccl", "a", "b", **{"x.so": ""}))
