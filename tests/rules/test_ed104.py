"""ED104: containers that see GPUs without the driver's libraries."""

from typing import Any

import pytest

from envdoctor.model.facts import Host, NvmlCode, PciGpu, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed104_missing_driver_libraries import missing_driver_libraries
from tests.builders import a_cuda_library, a_host, a_torch, an_nvml_session

NO_NVML = an_nvml_session(
    library="libnvidia-ml.so.1",
    init=NvmlCode(12, "NVML_ERROR_LIBRARY_NOT_FOUND"),
    device_count=Unavailable("libnvidia-ml.so.1 not found"),
)


def a_container(**changes: Any) -> Host:
    return a_host(**{"container": "docker", "container_evidence": "/.dockerenv"} | changes)


@pytest.mark.parametrize(
    "host",
    [
        a_container(),  # maciej-sypetkowski/kaggle-rcic-1st#5: --privileged gives nodes, no libraries
        a_container(device_nodes=()),  # kcosta42/VQGAN-CLIP-Docker#1: compose without a device reservation
        a_container(pci_gpus=Unavailable("no /sys")),
        a_host(),
    ],
)
def test_fires_when_gpus_are_visible_without_libraries(host: Host) -> None:
    [finding] = missing_driver_libraries(nvml=NO_NVML, host=host, torch=a_torch())

    assert "libcuda.so.1, libnvidia-ml.so.1" in finding.message


def test_fires_when_the_container_was_given_nvml_only() -> None:
    host = a_container(cuda_libraries=(a_cuda_library(soname="libnvidia-ml.so.1"),))
    [finding] = missing_driver_libraries(nvml=an_nvml_session(), host=host, torch=a_torch())

    assert finding.remedy is not None
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.remedy.summary


@pytest.mark.parametrize(
    ("container", "switch"),
    [
        ("docker", "--gpus all"),
        ("containerd", "--gpus all"),
        ("apptainer", "--nv"),
        ("podman", "--device nvidia.com/gpu=all"),
        ("kubernetes", "nvidia.com/gpu"),
    ],
)
def test_the_remedy_knows_the_switch_of_each_kind_of_container(container: str, switch: str) -> None:
    host = a_container(container=container)
    [finding] = missing_driver_libraries(nvml=NO_NVML, host=host, torch=a_torch())

    assert finding.remedy is not None
    assert switch in finding.remedy.summary


def test_is_silent_when_the_libraries_are_here() -> None:
    host = a_host(cuda_libraries=(a_cuda_library(soname="libcuda.so.1"), a_cuda_library(soname="libnvidia-ml.so.1")))

    assert not missing_driver_libraries(nvml=an_nvml_session(), host=host, torch=a_torch())


def test_is_silent_when_nvml_was_found_by_other_ways() -> None:
    assert not missing_driver_libraries(nvml=an_nvml_session(), host=a_host(), torch=a_torch())


@pytest.mark.parametrize("driver", ["nouveau", "vfio-pci", ""])
def test_has_nothing_to_judge_when_the_driver_is_not_loaded(driver: str) -> None:
    host = a_host(device_nodes=(), pci_gpus=(PciGpu(address="0000:01:00.0", device_id="2684", driver=driver),))
    [conclusion] = missing_driver_libraries.check(nvml=NO_NVML, host=host, torch=a_torch())

    assert isinstance(conclusion, NotApplicable)


def test_has_nothing_to_judge_for_a_torch_without_cuda() -> None:
    [conclusion] = missing_driver_libraries.check(nvml=NO_NVML, host=a_container(), torch=a_torch("2.6.0+cpu"))

    assert isinstance(conclusion, NotApplicable)
