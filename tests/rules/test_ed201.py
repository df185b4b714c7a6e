from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Driver, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.model.versions import CudaVersion
from envdoctor.rules.ed201_torch_without_code_for_gpu import torch_without_code_for_gpu
from tests.builders import (
    a_container,
    a_distribution,
    a_driver,
    a_gpu,
    a_library,
    a_named_gpu,
    a_torch,
    a_torch_library,
    an_environment,
    variables,
)

TORCH_1_10 = "sm_37 sm_50 sm_60 sm_70"  # 1.10.2+cu102, the default build
TORCH_1_13 = "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"  # 1.13.1+cu117
TORCH_2_14 = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"  # 2.14.1+cu130

# libtorch_cuda.so of 1.10.2, its largest groups: 277 and 203 are static cuDNN, NCCL, MAGMA.
TORCH_1_10_LIBRARY = a_torch_library(
    a_container("sm_37 sm_50 sm_60 sm_70", count=481),
    a_container("sm_35 sm_50 sm_60 sm_61 sm_70 sm_75", count=277),
    a_container("sm_35 sm_50 sm_60 sm_70 sm_75", count=203),
)


@pytest.mark.parametrize(
    ("version", "arch_list", "capability"),
    [
        ("1.10.2+cu102", TORCH_1_10, "8.9"),  # https://github.com/QData/C-Tran/issues/30
        ("1.7.1+cu101", "sm_37 sm_50 sm_60 sm_70 sm_75", "8.6"),  # https://github.com/MRzzm/DINet/issues/100
        # https://github.com/pBFSLab/DeepPrep/issues/233
        ("2.0.1+cu118", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", "12.0"),
        # https://github.com/HybridRobotics/berkeley-humanoid-lite/issues/49
        ("2.5.1+cu121", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", "12.0"),
        ("1.13.1+cu117", TORCH_1_13, "9.0"),  # https://github.com/rcgsheffield/sheffield_hpc/issues/1890
        # https://github.com/jhj0517/Whisper-WebUI/issues/653
        ("2.8.0+cu128", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", "6.1"),
        ("2.11.0+cu128", TORCH_2_14, "7.0"),  # https://github.com/pytorch/pytorch/issues/172352
        ("2.14.1+cu130", TORCH_2_14, "6.1"),
        ("2.14.1+cu130", TORCH_2_14, "8.7"),  # Orin: an integrated chip runs its own code alone
        ("1.8.0+cu111", "sm_86", "8.0"),  # torch's own check looks at the major version alone
        ("2.6.0+cu124", "sm_90a", "12.0"),
        ("2.6.0+cu124", "compute_90a", "12.0"),
    ],
)
def test_fires_when_nothing_in_the_arch_list_runs(
    version: str, arch_list: str, capability: str, kb: KnowledgeBase
) -> None:
    [finding] = torch_without_code_for_gpu(torch=a_torch(version, arch_list), gpus=(a_gpu(capability),), kb=kb)

    assert f"torch {version} has no code for GPU 0 (NVIDIA GeForce RTX 4090)" in finding.message
    assert [evidence.value for evidence in finding.evidence] == [
        f"compute capability {capability}",
        version,
        arch_list,
    ]


@pytest.mark.parametrize(
    ("version", "arch_list", "capability"),
    [
        ("1.13.1+cu117", TORCH_1_13, "8.9"),  # the way out of C-Tran#30: no sm_89 in the list, sm_86 code runs
        (
            "1.7.1+cu110",
            "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80",
            "8.6",
        ),  # https://github.com/pytorch/pytorch/issues/45028
        ("1.10.2+cu102", TORCH_1_10, "7.5"),
        ("1.10.2+cu102", TORCH_1_10, "6.1"),
        ("2.8.0+cu126", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", "6.1"),  # Whisper-WebUI#653, after
        # Through PTX: https://github.com/ai2cm/ace/issues/301, where torch warns
        ("1.12.1+cu116", "sm_70 sm_80 sm_86 compute_86", "9.0"),
        ("2.10.0+cu130", "sm_80 sm_90 sm_100 sm_110 sm_120", "11.0"),
    ],
)
def test_is_silent_when_something_in_the_arch_list_runs(
    version: str, arch_list: str, capability: str, kb: KnowledgeBase
) -> None:
    findings = torch_without_code_for_gpu(torch=a_torch(version, arch_list), gpus=(a_gpu(capability),), kb=kb)

    assert findings == []


@pytest.mark.parametrize("capability", ["7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"])
def test_finds_nothing_wrong_with_the_default_build_of_2026(capability: str, kb: KnowledgeBase) -> None:
    torch = a_torch("2.14.1+cu130", TORCH_2_14)

    assert list(torch_without_code_for_gpu.check(torch=torch, gpus=(a_gpu(capability),), kb=kb)) == []


def test_counts_the_containers_as_second_evidence(kb: KnowledgeBase) -> None:
    [finding] = torch_without_code_for_gpu(
        torch=a_torch("1.10.2+cu102", TORCH_1_10), gpus=(a_gpu("8.9"),), device_code=(TORCH_1_10_LIBRARY,), kb=kb
    )

    assert "0 of 961 kernel containers have code for 8.9" in [evidence.value for evidence in finding.evidence]


def test_is_not_misled_by_the_architectures_of_libraries_linked_into_torch(kb: KnowledgeBase) -> None:
    magma = a_torch_library(a_container("sm_50 sm_60 sm_70 sm_80 sm_86 sm_90 sm_100 sm_120", count=107))
    torch = a_torch("2.8.0+cu128", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120")
    kernels = a_torch_library(a_container("sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", count=393))

    assert torch_without_code_for_gpu(torch=torch, gpus=(a_gpu("6.1"),), device_code=(kernels, magma), kb=kb)


UNLISTED = replace(
    a_torch("1.10.2+cu102"), arch_list=Unavailable("libtorch_python.so: not an ELF file"), arch_list_source=""
)


def test_judges_by_the_containers_alone_when_the_list_cannot_be_read(kb: KnowledgeBase) -> None:
    [finding] = torch_without_code_for_gpu(
        torch=UNLISTED, gpus=(a_gpu("8.9"),), device_code=(TORCH_1_10_LIBRARY,), kb=kb
    )

    assert [evidence.source for evidence in finding.evidence] == ["NVML", "torch/version.py", "libraries of torch"]


@pytest.mark.parametrize("capability", ["7.0", "6.1", "7.5"])
def test_is_silent_when_most_containers_run_and_the_list_cannot_be_read(capability: str, kb: KnowledgeBase) -> None:
    conclusions = list(
        torch_without_code_for_gpu.check(
            torch=UNLISTED, gpus=(a_gpu(capability),), device_code=(TORCH_1_10_LIBRARY,), kb=kb
        )
    )

    assert conclusions == []


def test_leaves_open_what_neither_list_nor_containers_tell(kb: KnowledgeBase) -> None:
    few = a_torch_library(a_container("sm_35 sm_37", count=900), a_container("sm_75", count=9))
    [undecided] = torch_without_code_for_gpu.check(torch=UNLISTED, gpus=(a_gpu("7.5"),), device_code=(few,), kb=kb)

    assert undecided == Undecided(
        "whether torch has code for GPU 0 (NVIDIA GeForce RTX 4090): libtorch_python.so: not an ELF file; "
        "9 of 909 kernel containers of torch would run",
        (0,),
    )


def test_leaves_open_a_library_that_cannot_be_read(kb: KnowledgeBase) -> None:
    damaged = a_torch_library(unreadable="truncated at 0x1000")
    [undecided] = torch_without_code_for_gpu.check(torch=UNLISTED, gpus=(a_gpu("8.9"),), device_code=(damaged,), kb=kb)

    assert isinstance(undecided, Undecided)
    assert "torch/lib/libtorch_cuda.so: truncated at 0x1000" in undecided.reason


def test_does_not_believe_a_list_that_the_containers_contradict(kb: KnowledgeBase) -> None:
    [undecided] = torch_without_code_for_gpu.check(
        torch=a_torch("2.6.0+cu124", "sm_90"),
        gpus=(a_gpu("8.9"),),
        device_code=(a_torch_library(a_container("sm_80 sm_90", count=300)),),
        kb=kb,
    )

    assert isinstance(undecided, Undecided)


def test_gives_one_finding_to_gpus_of_one_capability_and_one_to_each_other(kb: KnowledgeBase) -> None:
    gpus = (
        a_gpu("8.9"),
        a_gpu("12.0", index=1, name="NVIDIA GeForce RTX 5090"),
        a_gpu("12.0", index=2, name="NVIDIA GeForce RTX 5090"),
        a_gpu("12.0", index=3, name="NVIDIA GeForce RTX 5080"),
        a_gpu("12.1", index=4, name="NVIDIA GB10"),
    )
    findings = torch_without_code_for_gpu(torch=a_torch(), gpus=gpus, kb=kb)

    assert [finding.gpus for finding in findings] == [(1, 2, 3), (4,)]
    assert "GPUs 1-2 (NVIDIA GeForce RTX 5090) and GPU 3 (NVIDIA GeForce RTX 5080)" in findings[0].message


def test_gives_a_verdict_to_each_named_card(kb: KnowledgeBase) -> None:
    gpus = (
        a_named_gpu("8.9", name="NVIDIA GeForce RTX 4090"),
        a_named_gpu("12.0", index=1, name="NVIDIA GeForce RTX 5090", source="--gpu 5090"),
    )
    [finding] = torch_without_code_for_gpu(torch=a_torch(), gpus=gpus, kb=kb)

    assert finding.gpus == (1,)
    assert "has no code for NVIDIA GeForce RTX 5090:" in finding.message
    assert finding.evidence[0].source == "--gpu 5090"


def test_judges_only_the_gpus_that_cuda_sees(kb: KnowledgeBase) -> None:
    gpus = (a_gpu("8.9", uuid="GPU-1"), a_gpu("12.0", index=1, uuid="GPU-2"))

    assert not torch_without_code_for_gpu(
        torch=a_torch(), gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="0"), kb=kb
    )
    assert torch_without_code_for_gpu(torch=a_torch(), gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="1"), kb=kb)


def test_leaves_open_which_of_different_gpus_a_number_means(kb: KnowledgeBase) -> None:
    gpus = (a_gpu("8.9"), a_gpu("12.0", index=1, name="NVIDIA GeForce RTX 5090"))
    [undecided] = torch_without_code_for_gpu.check(
        torch=a_torch(), gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="0"), kb=kb
    )

    assert isinstance(undecided, Undecided)
    assert "CUDA_VISIBLE_DEVICES=0" in undecided.reason


def test_fires_when_it_does_not_matter_which_gpu_is_meant(kb: KnowledgeBase) -> None:
    gpus = (a_gpu("12.1", name="NVIDIA GB10"), a_gpu("12.0", index=1))

    assert torch_without_code_for_gpu(torch=a_torch(), gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="0"), kb=kb)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(torch_without_code_for_gpu.check(torch=a_torch(), gpus=(), kb=kb)) == [
        NotApplicable("no GPU is visible")
    ]


@pytest.mark.parametrize("version", ["2.13.0+cpu", "2.6.0+rocm6.2"])
def test_leaves_builds_without_cuda_to_other_rules(version: str, kb: KnowledgeBase) -> None:
    [conclusion] = torch_without_code_for_gpu.check(torch=a_torch(version), gpus=(a_gpu("12.0"),), kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_leaves_open_a_gpu_whose_capability_is_not_known(kb: KnowledgeBase) -> None:
    gpu = replace(a_gpu(), compute_capability=Unavailable("NVML_ERROR_NOT_SUPPORTED"))
    [undecided] = torch_without_code_for_gpu.check(torch=a_torch(), gpus=(gpu,), kb=kb)

    assert undecided == Undecided(
        "compute capability of GPU 0 (NVIDIA GeForce RTX 4090): NVML_ERROR_NOT_SUPPORTED", (0,)
    )


def test_offers_the_same_release_for_an_old_card(kb: KnowledgeBase) -> None:
    [finding] = torch_without_code_for_gpu(
        torch=a_torch("2.8.0+cu128", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        gpus=(a_named_gpu("6.1", name="NVIDIA GeForce GTX 1080 Ti"),),
        environment=an_environment(),
        distributions=(a_distribution("torchvision", "0.23.0"),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands[0].endswith(
        "torch==2.8.0+cu126 torchvision==0.23.0+cu126 --index-url https://download.pytorch.org/whl/cu126"
    )


def test_ignores_the_extensions(kb: KnowledgeBase) -> None:
    assert not torch_without_code_for_gpu(
        torch=a_torch(), gpus=(a_gpu("8.9"),), device_code=(a_library("sm_37"),), kb=kb
    )


@pytest.mark.parametrize(
    ("version", "driver"),
    [("2.15.0+cu132", None), ("2.14.1+cu130", a_driver("595.45.04", cuda_version=CudaVersion(13, 2)))],
)
def test_leaves_open_whether_orin_runs_other_code_with_newer_cuda(
    version: str, driver: Driver | None, kb: KnowledgeBase
) -> None:
    gpus = (a_named_gpu("8.7"),)
    [undecided] = torch_without_code_for_gpu.check(torch=a_torch(version, TORCH_2_14), gpus=gpus, kb=kb, driver=driver)

    assert isinstance(undecided, Undecided)
    assert "13.2" in undecided.reason
