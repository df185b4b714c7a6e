from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Toolchain, Toolkit, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.model.versions import CudaVersion
from envdoctor.rules.ed211_ptxas_without_gpu import ptxas_without_gpu
from tests.builders import a_gpu, a_triton

PTXAS_12_4 = "sm_70 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_90a compute_90"  # triton 3.2.0
PTXAS_12_8 = "sm_80 sm_90 sm_90a sm_100 sm_100a sm_120 sm_120a"  # triton 3.5.0
BLACKWELL = a_gpu("12.0", name="NVIDIA GeForce RTX 5090")


@pytest.mark.parametrize(
    ("targets", "capability"),
    [
        (PTXAS_12_4, "12.0"),  # https://github.com/pytorch/pytorch/issues/148551
        (PTXAS_12_8, "12.1"),  # https://github.com/triton-lang/triton/issues/8539
        ("sm_80 compute_89", "8.9"),
    ],
)
def test_fires_when_ptxas_has_no_target_for_the_gpu(targets: str, capability: str, kb: KnowledgeBase) -> None:
    [finding] = ptxas_without_gpu(triton=a_triton("3.2.0", targets), gpus=(a_gpu(capability),), kb=kb)

    assert finding.message.startswith("the ptxas of triton 3.2.0 does not know GPU 0")


@pytest.mark.parametrize(
    ("targets", "capability"), [(PTXAS_12_4, "8.9"), (PTXAS_12_4, "9.0"), (PTXAS_12_8, "12.0"), ("sm_121f", "12.1")]
)
def test_is_silent_when_ptxas_has_a_target(targets: str, capability: str, kb: KnowledgeBase) -> None:
    assert list(ptxas_without_gpu.check(triton=a_triton("3.5.0", targets), gpus=(a_gpu(capability),), kb=kb)) == []


def test_shows_the_newest_targets(kb: KnowledgeBase) -> None:
    [finding] = ptxas_without_gpu(triton=a_triton("3.2.0", PTXAS_12_4), gpus=(BLACKWELL,), kb=kb)

    assert finding.evidence[-1].value == "CUDA 12.4, 8 targets, the newest are sm_87 sm_89 sm_90 sm_90a"


@pytest.mark.parametrize(
    ("capability", "version", "commands"),
    [
        ("8.9", "11.8", ("export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",)),
        (
            "12.0",
            "12.9",
            (
                "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",
                "export TRITON_PTXAS_BLACKWELL_PATH=/usr/local/cuda/bin/ptxas",
            ),
        ),
        ("12.0", "12.4", ()),
    ],
)
def test_offers_the_ptxas_of_a_toolkit_that_knows_the_gpu(
    capability: str, version: str, commands: tuple[str, ...], kb: KnowledgeBase
) -> None:
    toolkit = Toolkit(nvcc="/usr/local/cuda/bin/nvcc", toolkit_version=CudaVersion.parse(version), found_through="PATH")
    [finding] = ptxas_without_gpu(
        triton=a_triton("3.2.0", "sm_80"),
        gpus=(a_gpu(capability),),
        toolchain=Toolchain(toolkits=(toolkit,), compilers=()),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands == commands


def test_names_the_toolkit_that_is_needed_when_none_is_here(kb: KnowledgeBase) -> None:
    [finding] = ptxas_without_gpu(triton=a_triton("3.2.0", PTXAS_12_4), gpus=(BLACKWELL,), kb=kb)

    assert finding.remedy is not None
    assert "name the ptxas of CUDA 12.8 or newer" in finding.remedy.summary


def test_leaves_open_what_ptxas_does_not_tell(kb: KnowledgeBase) -> None:
    triton = replace(a_triton(), ptxas_archs=Unavailable("ptxas: no table of targets"))
    [undecided] = ptxas_without_gpu.check(triton=triton, gpus=(BLACKWELL,), kb=kb)

    assert undecided == Undecided("which GPUs triton's ptxas knows: ptxas: no table of targets")


def test_leaves_gpus_that_triton_ended_to_another_rule(kb: KnowledgeBase) -> None:
    [conclusion] = ptxas_without_gpu.check(triton=a_triton("3.5.0", "sm_75 sm_80"), gpus=(a_gpu("6.1"),), kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(ptxas_without_gpu.check(triton=a_triton(), gpus=(), kb=kb)) == [NotApplicable("no GPU is visible")]
