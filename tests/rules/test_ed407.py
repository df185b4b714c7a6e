import pytest

from envdoctor.model.facts import CupyBuild
from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.rules.ed407_cupy_without_compiler import cupy_without_compiler
from tests.builders import SITE_PACKAGES, a_cupy, a_gpu, an_environment, variables

HIDDEN = f"{SITE_PACKAGES}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"


def findings_with(cupy: CupyBuild) -> list[Finding]:
    return cupy_without_compiler(cupy=cupy, gpus=(a_gpu(),), environment=an_environment())


@pytest.mark.parametrize(
    ("distribution", "nvrtc", "wheel"),
    [
        ("cupy-cuda12x", "libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"),
        ("cupy-cuda11x", "libnvrtc.so.11.2", "nvidia-cuda-nvrtc-cu11"),
        ("cupy-cuda13x", "libnvrtc.so.13", "'nvidia-cuda-nvrtc==13.*'"),
    ],
)
def test_fires_when_there_is_none(distribution: str, nvrtc: str, wheel: str) -> None:
    [finding] = findings_with(a_cupy(distribution, "13.6.0", nvrtc=nvrtc, findable=()))

    assert finding.message == f"{distribution} 13.6.0 finds no {nvrtc}: its kernels cannot be compiled"
    assert finding.remedy is not None
    assert finding.remedy.commands == (f"/opt/env/bin/python -m pip install {wheel}",)


def test_gives_no_command_for_cuda_that_has_no_wheels() -> None:
    """https://github.com/sniklaus/pytorch-pwc/issues/58."""
    [finding] = findings_with(a_cupy("cupy-cuda102", "9.6.0", nvrtc="libnvrtc.so.10.2", findable=()))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_fires_when_it_lies_where_an_older_cupy_does_not_look() -> None:
    [finding] = findings_with(a_cupy(findable=(), hidden=(HIDDEN,)))

    assert finding.message == (
        "cupy-cuda12x 13.6.0 does not look where libnvrtc.so.12 lies, and finds it only after `import torch`"
    )
    assert finding.evidence[1].value == HIDDEN
    assert finding.remedy is not None
    assert f"{SITE_PACKAGES}/nvidia/cuda_nvrtc/lib$" in finding.remedy.commands[0]


def test_is_silent_when_it_is_found() -> None:
    assert not findings_with(a_cupy())


def test_has_nothing_to_judge_without_gpu() -> None:
    hidden = variables(CUDA_VISIBLE_DEVICES="")
    conclusions = cupy_without_compiler.check(cupy=a_cupy(findable=()), gpus=(a_gpu(),), variables=hidden)

    assert list(conclusions) == [NotApplicable("no GPU is visible")]
