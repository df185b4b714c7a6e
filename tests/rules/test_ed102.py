"""ED102: libraries and kernel module of different releases, and the ways in which they may differ."""

import pytest

from envdoctor.model.facts import CudaLibrary, NvmlCode, Unavailable
from envdoctor.rules.ed102_mismatched_driver_libraries import mismatched_driver_libraries
from tests.builders import a_compat_library, a_cuda_library, a_driver, a_host, an_nvml_session

MISMATCH = an_nvml_session(init=NvmlCode(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"))


def libnvml(release: str) -> CudaLibrary:
    return a_cuda_library(release, "libnvidia-ml.so.1")


def test_fires_when_nvml_refuses_to_start() -> None:
    [finding] = mismatched_driver_libraries(nvml=MISMATCH)

    assert "NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)" in finding.evidence[-1].value


def test_fires_when_the_library_was_upgraded_without_a_reboot() -> None:
    """intel/llvm#17614: NVML library 550.144, another kernel module."""
    host = a_host(cuda_libraries=(a_cuda_library("550.144.03"), libnvml("550.144.03")))
    [finding] = mismatched_driver_libraries(nvml=MISMATCH, driver=a_driver("550.120"), host=host)

    assert [evidence.value for evidence in finding.evidence] == [
        "release 550.144.03",
        "release 550.144.03",
        "release 550.120",
        "nvmlInit: NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)",
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == ("sudo reboot",)


def test_fires_when_only_libcuda_is_foreign() -> None:
    host = a_host(container="docker", container_evidence="/.dockerenv", cuda_libraries=(a_cuda_library("535.161.07"),))
    [finding] = mismatched_driver_libraries(nvml=an_nvml_session(), driver=a_driver("550.54.15"), host=host)

    assert finding.remedy is not None
    assert finding.remedy.summary.startswith("create the container anew")


def test_tells_libraries_that_are_newer_than_the_module_from_older_ones() -> None:
    """A container that is created anew gets the newer libraries again, as long as the host was not rebooted."""
    host = a_host(container="docker", container_evidence="/.dockerenv", cuda_libraries=(libnvml("550.144.03"),))
    [finding] = mismatched_driver_libraries(nvml=MISMATCH, driver=a_driver("550.120"), host=host)

    assert finding.remedy is not None
    assert finding.remedy.summary.startswith("have the host rebooted if its driver was upgraded")
    assert finding.remedy.needs_admin


@pytest.mark.parametrize(
    "libraries",
    [
        (a_cuda_library("550.54.15"),),
        (a_cuda_library("550.054.15"),),
        (a_compat_library("555.42.02"),),
        (a_cuda_library("555.42.02"),),  # a container runtime mounted the forward-compatibility library here
        (a_cuda_library("550.54.15"), a_cuda_library("535.161.07")),  # the second is never loaded
        (a_cuda_library("550.54.15"), libnvml("535.161.07")),  # NVML started, so it found the right one elsewhere
        (a_cuda_library("550.54.15", release=Unavailable("no release in the name")),),
        (),
    ],
)
def test_is_silent_when_they_agree_or_may_differ(libraries: tuple[CudaLibrary, ...]) -> None:
    host = a_host(cuda_libraries=libraries)

    assert not mismatched_driver_libraries(nvml=an_nvml_session(), driver=a_driver("550.54.15"), host=host)


def test_is_silent_when_the_module_is_not_known() -> None:
    driver = a_driver(module_version=Unavailable("no /sys/module/nvidia"))
    host = a_host(cuda_libraries=(a_cuda_library("551.61"),))

    assert not mismatched_driver_libraries(nvml=an_nvml_session(), driver=driver, host=host)
