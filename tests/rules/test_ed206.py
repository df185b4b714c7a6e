import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed206_extension_partly_without_code import extension_partly_without_code
from tests.builders import a_container, a_gpu, a_library

SPCONV = a_library(  # spconv-cu118 2.3.8
    a_container("sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 compute_90", count=278),
    a_container("sm_52 compute_52", count=195),
    a_container("sm_50 sm_52 sm_60 sm_61 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 compute_90", count=133),
    library="/opt/env/lib/python3.10/site-packages/spconv/core_cc.so",
    distribution="spconv-cu118",
)


def test_fires_with_the_number_of_containers_that_have_only_ptx(kb: KnowledgeBase) -> None:
    [finding] = extension_partly_without_code(device_code=(SPCONV,), gpus=(a_gpu("8.9"),), kb=kb)

    assert finding.message == "some kernels of spconv-cu118 have no machine code for GPU 0 (NVIDIA GeForce RTX 4090)"
    assert finding.evidence[-1].value == "of 606 kernel containers 195 have only PTX"
    assert finding.remedy is not None
    assert "ComputeCache" in finding.remedy.summary


def test_fires_when_a_second_library_has_no_code(kb: KnowledgeBase) -> None:
    code = (
        a_library("sm_75 sm_80 sm_86", library="/site-packages/awq_ext.so", distribution="autoawq-kernels"),
        a_library("sm_80 sm_86", library="/site-packages/awq_v2_ext.so", distribution="autoawq-kernels"),
    )
    [finding] = extension_partly_without_code(device_code=code, gpus=(a_gpu("7.5"),), kb=kb)

    assert [one.source for one in finding.evidence] == ["NVML", "awq_v2_ext.so"]
    assert finding.evidence[-1].value == "of 1 kernel containers 1 have neither machine code nor PTX"
    assert finding.remedy is not None
    assert finding.remedy.summary == "none is needed, unless the job uses those kernels"


@pytest.mark.parametrize(
    "special",
    [
        "sm_90a",  # vllm, onnxruntime: kernels for Hopper
        "sm_100a sm_90a",
        "sm_120f",
        "compute_90a",
        "sm_35",  # cuBLAS linked into faiss-gpu has containers for each generation
        "sm_50 sm_60 sm_61",
    ],
)
def test_is_silent_about_kernels_that_were_written_for_other_gpus(special: str, kb: KnowledgeBase) -> None:
    library = a_library("sm_80", a_container(special, count=9))

    assert not extension_partly_without_code(device_code=(library,), gpus=(a_gpu("8.9"),), kb=kb)


def test_is_silent_about_a_small_part(kb: KnowledgeBase) -> None:
    vllm = a_library(a_container("sm_80 sm_90", count=70), "sm_52 compute_52", "sm_100")

    assert not extension_partly_without_code(device_code=(vllm,), gpus=(a_gpu("8.9"),), kb=kb)


@pytest.mark.parametrize("arch_list", ["sm_52 compute_52", "sm_70"])
def test_leaves_extensions_without_any_machine_code_to_other_rules(arch_list: str, kb: KnowledgeBase) -> None:
    assert not extension_partly_without_code(device_code=(a_library(arch_list),), gpus=(a_gpu("8.9"),), kb=kb)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(extension_partly_without_code.check(device_code=(SPCONV,), gpus=(), kb=kb)) == [
        NotApplicable("no GPU is visible")
    ]
