from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import CudaLibrary, Driver, Unavailable
from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.model.versions import CudaVersion, DriverRelease
from envdoctor.rules.ed203_ptx_newer_than_driver import ptx_newer_than_driver
from tests.builders import a_container, a_driver, a_gpu, a_host, a_torch, a_torch_library

# CUDA 12.6 writes PTX 8.5, which drivers of CUDA 12.5 (R555) and later compile.
TORCH = a_torch("2.6.0+cu126", "sm_80 sm_90 compute_90")
BLACKWELL = a_gpu("12.0", name="NVIDIA GeForce RTX 5090")


def findings_under(driver: Driver, kb: KnowledgeBase) -> list[Finding]:
    return ptx_newer_than_driver(torch=TORCH, gpus=(BLACKWELL,), driver=driver, kb=kb)


@pytest.mark.parametrize(("release", "fires"), [("550.54.15", True), ("555.42.02", False), ("570.86.10", False)])
def test_fires_when_the_driver_is_older_than_the_ptx(release: str, fires: bool, kb: KnowledgeBase) -> None:
    assert bool(findings_under(a_driver(release), kb)) is fires


def test_names_driver_and_ptx(kb: KnowledgeBase) -> None:
    [finding] = findings_under(a_driver("550.54.15"), kb)

    assert finding.message == (
        "torch 2.6.0+cu126 has only PTX for GPU 0 (NVIDIA GeForce RTX 5090), and driver 550.54.15 cannot compile it"
    )
    assert finding.evidence[-1].value == "driver 550.54.15 compiles PTX up to 8.4"


def test_takes_the_cuda_version_that_the_driver_states(kb: KnowledgeBase) -> None:
    driver = replace(a_driver(cuda_version=CudaVersion(12, 4)), release_version=Unavailable("not told"))
    [finding] = findings_under(driver, kb)

    assert "the driver (CUDA 12.4) cannot compile it" in finding.message


def test_takes_the_version_that_the_ptx_itself_carries(kb: KnowledgeBase) -> None:
    library = a_torch_library(a_container("sm_80 compute_80", ptx_isa="7.0"), a_container("compute_90", ptx_isa="8.5"))

    assert not ptx_newer_than_driver(
        torch=TORCH, gpus=(BLACKWELL,), driver=a_driver("550.54.15"), device_code=(library,), kb=kb
    )


def test_takes_the_compiler_of_the_compatibility_library(kb: KnowledgeBase) -> None:
    compat = CudaLibrary(
        soname="libcuda.so.1",
        path="/usr/local/cuda/compat/libcuda.so.560.35.03",
        release=DriverRelease.parse("560.35.03"),
        found_through="LD_LIBRARY_PATH",
        is_compat=True,
    )
    host = a_host(cuda_libraries=(compat,))

    assert not ptx_newer_than_driver(torch=TORCH, gpus=(BLACKWELL,), driver=a_driver("550.54.15"), host=host, kb=kb)


@pytest.mark.parametrize("capability", ["8.0", "8.9", "9.0"])
def test_is_silent_when_machine_code_runs(capability: str, kb: KnowledgeBase) -> None:
    assert not ptx_newer_than_driver(torch=TORCH, gpus=(a_gpu(capability),), driver=a_driver("535.54.03"), kb=kb)


def test_has_nothing_to_judge_when_the_driver_is_not_known(kb: KnowledgeBase) -> None:
    driver = replace(a_driver(), release_version=Unavailable("not told"))
    [conclusion] = ptx_newer_than_driver.check(torch=TORCH, gpus=(BLACKWELL,), driver=driver, kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_leaves_what_is_not_known_to_another_rule(kb: KnowledgeBase) -> None:
    torch = replace(TORCH, arch_list=Unavailable("no list"))
    [conclusion] = ptx_newer_than_driver.check(torch=torch, gpus=(BLACKWELL,), driver=a_driver(), kb=kb)

    assert conclusion == NotApplicable("which code torch has is not known: see ED201")


def test_leaves_builds_without_cuda_to_other_rules(kb: KnowledgeBase) -> None:
    [conclusion] = ptx_newer_than_driver.check(torch=a_torch("2.13.0+cpu"), gpus=(BLACKWELL,), driver=a_driver(), kb=kb)

    assert isinstance(conclusion, NotApplicable)
