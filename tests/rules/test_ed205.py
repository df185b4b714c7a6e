import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import LibraryRole
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed205_extension_through_ptx import extension_through_ptx
from tests.builders import a_container, a_driver, a_gpu, a_library, a_torch


@pytest.mark.parametrize(
    ("arch_list", "capability"),
    [
        ("sm_52 compute_52", "8.9"),  # what nvcc compiles for when nobody says what for
        ("sm_60 sm_61 sm_70 sm_75 compute_30 compute_50 compute_70", "8.6"),  # cupy-cuda102
        ("sm_75 sm_80 sm_90a compute_80", "12.0"),  # xformers 0.0.35
    ],
)
def test_fires_when_only_ptx_runs(arch_list: str, capability: str, kb: KnowledgeBase) -> None:
    [finding] = extension_through_ptx(device_code=(a_library(arch_list),), gpus=(a_gpu(capability),), kb=kb)

    assert finding.message == (
        "mmcv has only PTX for GPU 0 (NVIDIA GeForce RTX 4090): the driver compiles it at first use"
    )


@pytest.mark.parametrize("arch_list", ["sm_80 compute_80", "sm_70", "sm_75 compute_90"])
def test_is_silent_when_machine_code_or_nothing_runs(arch_list: str, kb: KnowledgeBase) -> None:
    assert not extension_through_ptx(device_code=(a_library(arch_list),), gpus=(a_gpu("8.9"),), kb=kb)


def test_is_silent_when_another_container_has_machine_code(kb: KnowledgeBase) -> None:
    assert not extension_through_ptx(device_code=(a_library("sm_52 compute_52", "sm_86"),), gpus=(a_gpu("8.9"),), kb=kb)


def test_is_silent_when_the_driver_does_not_compile_the_ptx(kb: KnowledgeBase) -> None:
    library = a_library(a_container("sm_80 compute_90", ptx_isa="8.5"))

    assert not extension_through_ptx(device_code=(library,), gpus=(a_gpu("12.0"),), driver=a_driver("550.54.15"), kb=kb)


def test_leaves_the_libraries_of_nvidia_alone(kb: KnowledgeBase) -> None:
    nvjpeg = a_library("sm_75 compute_75", role=LibraryRole.NVIDIA)

    assert not extension_through_ptx(device_code=(nvjpeg,), gpus=(a_gpu("8.9"),), kb=kb)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(extension_through_ptx.check(device_code=(), gpus=(), kb=kb)) == [NotApplicable("no GPU is visible")]


def test_offers_to_build_it(kb: KnowledgeBase) -> None:
    library = a_library("sm_52 compute_52", needed=("libc10.so",))
    [finding] = extension_through_ptx(device_code=(library,), gpus=(a_gpu("8.9"),), torch=a_torch(), kb=kb)

    assert finding.remedy is not None
    assert finding.remedy.summary == "build mmcv for 8.9, or install a wheel of it that has such code"
