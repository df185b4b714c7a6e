from collections.abc import Callable

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import CupyBuild, TorchBuild
from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.rules.ed407_cupy_without_compiler import cupy_without_compiler
from tests.builders import SITE_PACKAGES, a_cupy, a_gpu, a_torch, an_environment, variables

HIDDEN = f"{SITE_PACKAGES}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"


@pytest.fixture
def findings_with(kb: KnowledgeBase) -> Callable[..., list[Finding]]:
    def judge(cupy: CupyBuild, torch: TorchBuild | None = None) -> list[Finding]:
        environment = an_environment(python_version=(3, 11, 7))
        return cupy_without_compiler(cupy=cupy, gpus=(a_gpu(),), environment=environment, torch=torch, kb=kb)

    return judge


@pytest.mark.parametrize(
    ("distribution", "version", "nvrtc", "wheels"),
    [
        ("cupy-cuda12x", "14.2.0", "libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"),
        ("cupy-cuda13x", "14.2.0", "libnvrtc.so.13", "'nvidia-cuda-nvrtc==13.*'"),
        # older ones do not look into NVIDIA's wheels
        ("cupy-cuda12x", "13.6.0", "libnvrtc.so.12", "'cupy-cuda12x>=14' nvidia-cuda-nvrtc-cu12"),
        ("cupy-cuda11x", "13.6.0", "libnvrtc.so.11.2", "nvidia-cuda-nvrtc-cu11"),
    ],
)
def test_fires_when_there_is_none(
    distribution: str, version: str, nvrtc: str, wheels: str, findings_with: Callable[..., list[Finding]]
) -> None:
    [finding] = findings_with(a_cupy(distribution, version, nvrtc=nvrtc, findable=()))

    assert finding.message == f"{distribution} {version} finds no {nvrtc}: its kernels cannot be compiled"
    assert finding.remedy is not None
    assert finding.remedy.commands == (f"/opt/env/bin/python -m pip install {wheels}",)


def test_follows_the_cuda_that_torch_brings(findings_with: Callable[..., list[Finding]]) -> None:
    cupy = a_cupy("cupy-cuda11x", "13.6.0", nvrtc="libnvrtc.so.11.2", findable=())
    [finding] = findings_with(cupy, a_torch("2.14.1+cu130"))

    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip uninstall --yes cupy-cuda11x",
        "/opt/env/bin/python -m pip install cupy-cuda13x",
    )


def test_gives_no_command_for_cuda_that_has_no_wheels(findings_with: Callable[..., list[Finding]]) -> None:
    """https://github.com/sniklaus/pytorch-pwc/issues/58."""
    [finding] = findings_with(a_cupy("cupy-cuda102", "9.6.0", nvrtc="libnvrtc.so.10.2", findable=()))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_fires_when_it_lies_where_an_older_cupy_does_not_look(findings_with: Callable[..., list[Finding]]) -> None:
    [finding] = findings_with(a_cupy(findable=(), hidden=(HIDDEN,)))

    assert finding.message == (
        "cupy-cuda12x 13.6.0 does not look where libnvrtc.so.12 lies, and finds it only after `import torch`"
    )
    assert finding.evidence[1].value == HIDDEN
    assert finding.remedy is not None
    assert f'={SITE_PACKAGES}/nvidia/cuda_nvrtc/lib"$' in finding.remedy.commands[0]


def test_is_silent_when_it_is_found(findings_with: Callable[..., list[Finding]]) -> None:
    assert not findings_with(a_cupy())


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    hidden = variables(CUDA_VISIBLE_DEVICES="")
    conclusions = cupy_without_compiler.check(cupy=a_cupy(findable=()), gpus=(a_gpu(),), variables=hidden, kb=kb)

    assert list(conclusions) == [NotApplicable("no GPU is visible")]
