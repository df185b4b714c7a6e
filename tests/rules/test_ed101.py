"""ED101 on the drivers and builds of real threads, and on those that work by minor-version compatibility."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Absence, Gpu, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.model.versions import CudaVersion
from envdoctor.rules.ed101_driver_too_old import driver_too_old
from tests.builders import a_compat_library, a_driver, a_gpu, a_host, a_named_gpu, a_torch, an_environment

COMPAT = a_compat_library("550.54.15")
A100 = a_gpu("8.0", name="NVIDIA A100-SXM4-80GB", brand="NVIDIA")


@pytest.mark.parametrize(
    ("driver", "torch", "floor"),
    [
        ("470.86", "2.1.2+cu121", "525.60.13"),  # lllyasviel/Fooocus#1313
        ("450.51.06", "2.1.0+cu121", "525.60.13"),  # IEIT-Yuan/Yuan-2.0#65: found version 11000
        ("418.87.00", "1.7.1+cu102", "440.33"),  # guo-pu/NanoDet-PyTorch#4: found version 10010
        ("525.60.13", "2.14.1+cu130", "580"),
        ("450.36.06", "1.8.1+cu111", "450.80.02"),
    ],
)
def test_fires_when_the_driver_is_below_the_floor(kb: KnowledgeBase, driver: str, torch: str, floor: str) -> None:
    [finding] = driver_too_old(torch=a_torch(torch), driver=a_driver(driver), kb=kb)

    assert f"needs driver {floor}" in finding.evidence[-1].value
    assert finding.remedy is not None
    assert f"driver {floor} or newer" in finding.remedy.summary


@pytest.mark.parametrize(
    ("driver", "torch"),
    [
        ("550.54.15", "2.6.0+cu126"),  # minor-version compatibility: nvidia-smi says CUDA 12.4
        ("525.60.13", "2.7.0+cu128"),
        ("450.80.02", "1.13.1+cu117"),
        ("450.80.02", "2.0.1+cu118"),
        ("580.65.06", "2.14.1+cu130"),
        ("580.65.06", "1.7.1+cu102"),  # a newer driver runs older CUDA
        ("525.105.17", "1.13.1+cu117"),
        ("440.33", "1.7.1+cu102"),
    ],
)
def test_is_silent_when_the_driver_will_do(kb: KnowledgeBase, driver: str, torch: str) -> None:
    assert not driver_too_old(torch=a_torch(torch), driver=a_driver(driver), kb=kb)


def test_is_silent_when_the_driver_itself_names_a_newer_cuda(kb: KnowledgeBase) -> None:
    driver = a_driver("470.86", cuda_version=CudaVersion(12, 4))

    assert not driver_too_old(torch=a_torch("2.1.2+cu121"), driver=driver, kb=kb)


def test_is_silent_when_a_data_centre_card_has_the_forward_compatibility_library(kb: KnowledgeBase) -> None:
    torch, driver, host = a_torch("2.4.0+cu124"), a_driver("470.82.01"), a_host(cuda_libraries=(COMPAT,))

    assert not driver_too_old(torch=torch, driver=driver, kb=kb, gpus=(A100,), host=host)


@pytest.mark.parametrize("gpu", [a_gpu("8.6", name="NVIDIA GeForce RTX 3090"), a_named_gpu("8.0")])
def test_fires_when_forward_compatibility_does_not_serve_the_card(kb: KnowledgeBase, gpu: Gpu) -> None:
    torch, driver, host = a_torch("2.4.0+cu124"), a_driver("470.82.01"), a_host(cuda_libraries=(COMPAT,))

    assert driver_too_old(torch=torch, driver=driver, kb=kb, gpus=(gpu,), host=host)


def test_fires_when_the_forward_compatibility_library_is_too_old_as_well(kb: KnowledgeBase) -> None:
    torch, driver, host = a_torch("2.14.1+cu130"), a_driver("470.82.01"), a_host(cuda_libraries=(COMPAT,))

    assert driver_too_old(torch=torch, driver=driver, kb=kb, gpus=(A100,), host=host)


def test_the_remedy_is_a_build_for_an_older_cuda_that_has_code_for_the_card(kb: KnowledgeBase) -> None:
    [finding] = driver_too_old(
        torch=a_torch("2.1.2+cu121"),
        driver=a_driver("470.86"),
        kb=kb,
        gpus=(a_gpu("8.6", name="NVIDIA GeForce RTX 3090"),),
        environment=an_environment(),
    )

    assert finding.remedy is not None
    assert "2.1.2" in finding.remedy.commands[0]
    assert "https://download.pytorch.org/whl/cu118" in finding.remedy.commands[0]
    assert not finding.remedy.needs_admin


def test_only_another_host_helps_when_no_build_for_an_older_cuda_knows_the_card(kb: KnowledgeBase) -> None:
    [finding] = driver_too_old(
        torch=a_torch("2.7.0+cu128"), driver=a_driver("470.86"), kb=kb, gpus=(a_named_gpu("12.0"),)
    )

    assert finding.remedy is not None
    assert finding.remedy.needs_admin


@pytest.mark.parametrize("version", ["2.6.0+cpu", "2.6.0+rocm6.2"])
def test_has_nothing_to_judge_without_cuda(kb: KnowledgeBase, version: str) -> None:
    [conclusion] = driver_too_old.check(torch=a_torch(version), driver=a_driver("470.86"), kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_leaves_an_unknown_driver_undecided(kb: KnowledgeBase) -> None:
    driver = a_driver(release_version=Unavailable("no permission", Absence.UNREADABLE))

    [conclusion] = driver_too_old.check(torch=a_torch(), driver=driver, kb=kb)

    assert isinstance(conclusion, Undecided)


def test_leaves_an_unknown_cuda_undecided(kb: KnowledgeBase) -> None:
    torch = a_torch(build_cuda_version=CudaVersion(14, 0))

    [conclusion] = driver_too_old.check(torch=torch, driver=a_driver(), kb=kb)

    assert isinstance(conclusion, Undecided)
