from envdoctor.model.facts import ContestedFolder, Distribution
from envdoctor.model.finding import Finding
from envdoctor.rules.ed404_overwritten_nvidia_library import overwritten_nvidia_library
from tests.builders import a_contested_folder, a_distribution, a_torch, an_environment

NCCL = ("nvidia-nccl-cu11", "nvidia-nccl-cu12")
TORCH = a_torch("2.2.0+cu121")


def a_torch_distribution(*requires: str) -> Distribution:
    return a_distribution("torch", "2.2.0", metadata_path=TORCH.distribution, requires=requires)


def findings_with(folder: ContestedFolder, *requires: str) -> list[Finding]:
    installed = (a_distribution(NCCL[0], "2.14.3"), a_distribution(NCCL[1], "2.19.3"), a_torch_distribution(*requires))
    return overwritten_nvidia_library(
        contested_folders=(folder,), distributions=installed, environment=an_environment(), torch=TORCH
    )


def test_fires_when_the_library_of_another_major_lies_there() -> None:
    """https://github.com/VichyTong/CodeJudge/issues/2."""
    folder = a_contested_folder("nvidia/nccl", *NCCL, **{"lib/libnccl.so.2": NCCL[0]})
    [finding] = findings_with(folder, 'nvidia-nccl-cu12==2.19.3; platform_system == "Linux"')

    assert finding.message == (
        "nvidia-nccl-cu11 2.14.3 and nvidia-nccl-cu12 2.19.3 overwrote each other in `nvidia/nccl`: what lies there is "
        "that of nvidia-nccl-cu11, and torch asks for nvidia-nccl-cu12"
    )
    assert [(each.source, each.value) for each in finding.evidence] == [
        ("nvidia/nccl/lib/libnccl.so.2", "is that of nvidia-nccl-cu11"),
        ("torch-2.2.0+cu121.dist-info", "Requires-Dist: nvidia-nccl-cu12==2.19.3"),
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip uninstall --yes nvidia-nccl-cu11 nvidia-nccl-cu12",
        "/opt/env/bin/python -m pip install --no-deps nvidia-nccl-cu12==2.19.3",
    )


def test_says_when_it_cannot_tell_whose_files_lie_there() -> None:
    folder = a_contested_folder("nvidia/nccl", *NCCL, **{"lib/libnccl.so.2": ""})
    [finding] = findings_with(folder)

    assert finding.message.endswith("whose files lie there cannot be told")
    assert finding.remedy is not None
    assert len(finding.remedy.commands) == 1  # nobody asks for either


def test_passes_over_requirements_that_cannot_be_read() -> None:
    folder = a_contested_folder("nvidia/nccl", *NCCL, **{"lib/libnccl.so.2": NCCL[1]})
    [finding] = findings_with(folder, "nvidia-nccl-cu12 ==", "nvidia-nccl-cu12>=2.*")

    assert "torch asks" not in finding.message


def test_leaves_other_packages_to_others() -> None:
    assert not findings_with(a_contested_folder("onnxruntime", "onnxruntime", "onnxruntime-gpu", **{"x.so": ""}))


def test_a_folder_of_one_wheel_may_hold_the_files_of_another() -> None:
    """https://github.com/jax-ml/jax/issues/16078."""
    [finding] = overwritten_nvidia_library(
        contested_folders=(a_contested_folder("nvidia/cudnn", "nvidia-cudnn-cu11", **{"lib/libcudnn.so.8": ""}),),
        distributions=(a_distribution("nvidia-cudnn-cu11", "8.9.1.23"),),
        environment=an_environment(),
    )

    assert finding.message == (
        "`nvidia/cudnn` holds other libraries than nvidia-cudnn-cu11 8.9.1.23 brought, and no other wheel claims them"
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip install --force-reinstall --no-deps nvidia-cudnn-cu11==8.9.1.23",
    )
