from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed202_torch_through_ptx import torch_through_ptx
from tests.builders import a_container, a_driver, a_gpu, a_torch, a_torch_library

TORCH_1_4 = "sm_37 sm_50 sm_60 sm_61 sm_70 sm_75 compute_37"  # 1.4.0+cu101, the default build


@pytest.mark.parametrize(
    ("version", "arch_list", "capability"),
    [
        ("1.4.0+cu101", TORCH_1_4, "8.6"),  # https://github.com/pytorch/pytorch/issues/45822: > 400 s for the first op
        ("1.0.0+cu90", "sm_35 sm_50 sm_60 sm_61 compute_50", "7.5"),  # https://github.com/pytorch/pytorch/issues/12283
        ("1.12.1+cu116", "sm_70 sm_80 sm_86 compute_86", "9.0"),  # https://github.com/ai2cm/ace/issues/301
    ],
)
def test_fires_when_only_ptx_of_the_arch_list_runs(
    version: str, arch_list: str, capability: str, kb: KnowledgeBase
) -> None:
    [finding] = torch_through_ptx(torch=a_torch(version, arch_list), gpus=(a_gpu(capability),), kb=kb)

    assert f"torch {version} has only PTX for GPU 0" in finding.message


@pytest.mark.parametrize(
    ("version", "arch_list", "capability"),
    [
        ("1.0.0+cu90", "sm_35 sm_50 sm_60 sm_61 compute_50", "6.1"),  # pytorch#12283: the GTX 1070 of the same machine
        ("1.4.0+cu101", TORCH_1_4, "7.5"),
        ("2.7.1+cu128", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120", "12.0"),
        ("1.10.2+cu102", "sm_37 sm_50 sm_60 sm_70", "8.9"),  # no PTX: ED201
        ("1.12.1+cu116", "sm_70 sm_80 compute_90", "8.9"),  # the PTX is for later devices
    ],
)
def test_is_silent_when_machine_code_runs_or_nothing_does(
    version: str, arch_list: str, capability: str, kb: KnowledgeBase
) -> None:
    assert torch_through_ptx(torch=a_torch(version, arch_list), gpus=(a_gpu(capability),), kb=kb) == []


@pytest.mark.parametrize(
    ("version", "capability", "warns"), [("1.4.0+cu101", "8.6", True), ("1.4.0+cu118", "8.6", False)]
)
def test_warns_of_the_libraries_of_a_cuda_that_does_not_know_the_gpu(
    version: str, capability: str, warns: bool, kb: KnowledgeBase
) -> None:
    [finding] = torch_through_ptx(torch=a_torch(version, TORCH_1_4), gpus=(a_gpu(capability),), kb=kb)

    assert any("cuBLAS and cuDNN may fail" in evidence.value for evidence in finding.evidence) is warns


def test_fires_by_the_containers_when_the_list_cannot_be_read(kb: KnowledgeBase) -> None:
    # torch 1.0.0 has no list; of libcaffe2_gpu.so, the largest groups.
    library = a_torch_library(
        a_container("sm_35 sm_50 sm_60 sm_70 compute_50", count=309, ptx_isa="6.0"),
        a_container("sm_35 sm_50 sm_60 sm_61 sm_70", count=283),
    )
    torch = replace(a_torch("1.0.0+cu90"), arch_list=Unavailable("no list"))
    [finding] = torch_through_ptx(torch=torch, gpus=(a_gpu("8.6"),), device_code=(library,), kb=kb)

    assert "0 of 592 kernel containers have machine code for 8.6, 309 have PTX for it" in [
        one.value for one in finding.evidence
    ]


@pytest.mark.parametrize(("release", "fires"), [("470.82.01", True), ("440.33.01", False)])
def test_leaves_ptx_that_the_driver_cannot_compile_to_another_rule(
    release: str, fires: bool, kb: KnowledgeBase
) -> None:
    torch = a_torch("1.12.1+cu113", "sm_70 compute_70")  # CUDA 11.3 writes PTX 7.3
    findings = torch_through_ptx(torch=torch, gpus=(a_gpu("8.6"),), driver=a_driver(release), kb=kb)

    assert bool(findings) is fires


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(torch_through_ptx.check(torch=a_torch(), gpus=(), kb=kb)) == [NotApplicable("no GPU is visible")]


def test_leaves_what_is_not_known_to_another_rule(kb: KnowledgeBase) -> None:
    torch = replace(a_torch("1.0.0+cu90"), arch_list=Unavailable("no list"))
    [conclusion] = torch_through_ptx.check(torch=torch, gpus=(a_gpu("8.6"),), kb=kb)

    assert conclusion == NotApplicable("which code torch has is not known: see ED201")


def test_leaves_builds_without_cuda_to_other_rules(kb: KnowledgeBase) -> None:
    [conclusion] = torch_through_ptx.check(torch=a_torch("2.13.0+cpu"), gpus=(a_gpu("12.0"),), kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_offers_a_build_with_machine_code(kb: KnowledgeBase) -> None:
    [finding] = torch_through_ptx(torch=a_torch("1.6.0+cu102", "sm_37 compute_37"), gpus=(a_gpu("8.6"),), kb=kb)

    assert finding.remedy is not None
    assert "torch==1.7.1+cu110" in finding.remedy.commands[0]
