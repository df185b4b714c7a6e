from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import TorchBuild
from envdoctor.model.finding import Finding
from envdoctor.model.loading import LoadFailure, LoadWay
from envdoctor.rules.ed304_missing_cuda_library import missing_cuda_library
from tests.builders import (
    SITE_PACKAGES,
    a_distribution,
    a_failed_load,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_torch,
)


def judge(
    kb: KnowledgeBase, failure: LoadFailure, torch: TorchBuild | None = None, name: str = "flash-attn", **changes: Any
) -> list[Finding]:
    failed = a_failed_load(failure, distribution=name, **changes)
    distributions = (a_distribution(name, "1.0"),)
    return missing_cuda_library(loader=a_loader(failed), torch=torch, kb=kb, distributions=distributions)


def test_names_the_cuda_that_is_asked_for_and_the_one_that_is_there(kb: KnowledgeBase) -> None:
    # https://github.com/Dao-AILab/flash-attention/issues/2118
    there = f"{SITE_PACKAGES}/nvidia/cu13/lib/libcudart.so.13"
    [finding] = judge(kb, a_missing_library("libcudart.so.12", relatives=(there,)), a_torch("2.9.1+cu130"))

    assert finding.message == (
        "flash-attn 1.0 needs CUDA 12 (`libcudart.so.12`), which is not there; torch 2.9.1+cu130 has CUDA 13.0"
    )
    assert ("in other versions", there) in [(one.source, one.value) for one in finding.evidence]
    assert finding.remedy is not None
    assert "built for torch 2.9.1+cu130 with CUDA 13.0" in finding.remedy.summary


def test_a_library_of_a_torch_in_two_halves(kb: KnowledgeBase) -> None:
    # https://github.com/rusty1s/pytorch_scatter/issues/211
    [finding] = judge(
        kb,
        a_missing_library("libtorch_cuda_cu.so"),
        a_torch("1.8.1+cu102"),
        "torch-scatter",
        way=LoadWay.PERHAPS,
        import_chain=(),
    )

    assert finding.message == "torch-scatter 1.0 needs `libtorch_cuda_cu.so`, which torch 1.8.1+cu102 does not have"


def test_an_extension_for_cuda_beside_a_torch_for_the_cpu(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_library("libc10_cuda.so"), a_torch("2.1.2+cpu"))

    assert finding.message == (
        "flash-attn 1.0 needs the CUDA part of torch (`libc10_cuda.so`); torch 2.1.2+cpu is a CPU build"
    )


def test_an_extension_of_torch_without_torch(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_library("libc10.so"), None, after_torch=False)

    assert finding.message == "flash-attn 1.0 needs torch (`libc10.so`), which is not installed"
    assert finding.remedy is not None
    assert finding.remedy.summary == "install the torch that flash-attn 1.0 was built for"


def test_a_package_that_needs_no_torch_is_not_built_for_torch(kb: KnowledgeBase) -> None:
    failure = a_missing_library("libcublas.so.11")
    [finding] = judge(kb, failure, a_torch("2.1.2+cu121"), "faiss-gpu", needs_torch=False, after_torch=False)

    assert finding.message == "faiss-gpu 1.0 needs `libcublas.so.11` of CUDA, which is not there"
    assert finding.remedy is not None
    assert (
        finding.remedy.summary
        == "install a build of faiss-gpu 1.0 for a CUDA whose libraries are there (torch has CUDA 12.1), "
        "or the libraries that it needs"
    )


def test_a_wheel_of_nvidia_that_is_older_than_torch_wants(kb: KnowledgeBase) -> None:
    provider = a_loaded_library(f"{SITE_PACKAGES}/nvidia/nvjitlink/lib/libnvJitLink.so.12")
    failure = a_missing_symbol("__nvJitLinkComplete_12_4", symbol_version="libnvJitLink.so.12", provider=provider)
    torch = a_distribution("torch", "2.5.1", requires=("nvidia-nvjitlink-cu12==12.4.127; platform_system == 'Linux'",))
    [finding] = missing_cuda_library(
        loader=a_loader(a_failed_load(failure)), torch=a_torch("2.5.1+cu124"), kb=kb, distributions=(torch,)
    )

    assert finding.remedy is not None
    assert finding.remedy.commands[0].endswith("nvidia-nvjitlink-cu12==12.4.127")


@pytest.mark.parametrize("name", ["libcuda.so.1", "libGL.so.1", "libpython3.8.so.1.0"])
def test_is_silent_about_other_libraries(kb: KnowledgeBase, name: str) -> None:
    assert not judge(kb, a_missing_library(name), a_torch())


def test_is_silent_where_the_package_may_bring_it_by_itself(kb: KnowledgeBase) -> None:
    failure = a_missing_library(
        "libcudart.so.12", holders=(f"{SITE_PACKAGES}/nvidia/cuda_runtime/lib/libcudart.so.12",)
    )

    assert not judge(kb, failure, a_torch(), preloads=("flash_attn/__init__.py:4",))
