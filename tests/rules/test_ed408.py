from typing import Any

import pytest

from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.model.versions import CudaVersion
from envdoctor.rules.ed408_mixed_nvrtc import mixed_nvrtc
from tests.builders import a_cupy, a_gpu, an_nvrtc, variables

OTHER = "/home/u/cuda-11.6/lib64/libnvrtc-builtins.so"
SYSTEM = "/usr/lib/x86_64-linux-gnu/libnvrtc-builtins.so"


def findings_of(**changes: Any) -> list[Finding]:
    cupy = a_cupy("cupy-cuda102", "12.0.0", nvrtc="libnvrtc.so.10.2", builtins=an_nvrtc(**changes))
    return mixed_nvrtc(cupy=cupy, gpus=(a_gpu(),))


def mixed(**changes: Any) -> Finding:
    taken: dict[str, Any] = {"path": OTHER, "found_through": "LD_LIBRARY_PATH", "builtins_cuda": CudaVersion(11, 6)}
    [finding] = findings_of(**taken | changes)
    return finding


def test_fires_when_the_builtins_are_of_another_release() -> None:
    """https://github.com/cupy/cupy/issues/7560."""
    finding = mixed()

    assert finding.message == (
        "cupy-cuda102 12.0.0 compiles with NVRTC of CUDA 10.2, which takes the built-in functions of CUDA 11.6"
    )
    assert [each.source for each in finding.evidence] == [
        "/usr/local/cuda-10.2/lib64/libnvrtc.so.10.2",
        "LD_LIBRARY_PATH",
    ]
    assert finding.evidence[1].value == f"{OTHER}, of CUDA 11.6"
    assert finding.remedy is not None
    assert "=/usr/local/cuda-10.2/lib64" in finding.remedy.commands[0]


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({"right": SYSTEM}, "take it off LD_LIBRARY_PATH"),  # in front of all, it would override far more
        ({"right": SYSTEM, "found_through": "ld.so.cache"}, "let the loader find"),
        ({"right": ""}, "bring libnvrtc-builtins.so of CUDA 10.2"),
        ({"found_through": "RPATH"}, "bring libnvrtc-builtins.so of CUDA 10.2"),  # LD_LIBRARY_PATH comes later
        ({"found_through": "already loaded"}, "bring libnvrtc-builtins.so of CUDA 10.2"),
    ],
)
def test_gives_no_command_that_would_not_help(changes: dict[str, Any], summary: str) -> None:
    remedy = mixed(**changes).remedy

    assert remedy is not None
    assert summary in remedy.summary
    assert remedy.commands == ()


def test_is_silent_when_the_releases_match() -> None:
    assert not findings_of(path=OTHER, found_through="LD_LIBRARY_PATH")


def test_is_silent_when_it_cannot_be_told() -> None:
    assert not mixed_nvrtc(cupy=a_cupy(), gpus=(a_gpu(),))


def test_has_nothing_to_judge_without_gpu() -> None:
    conclusions = mixed_nvrtc.check(cupy=a_cupy(), gpus=(a_gpu(),), variables=variables(CUDA_VISIBLE_DEVICES=""))

    assert list(conclusions) == [NotApplicable("no GPU is visible")]
