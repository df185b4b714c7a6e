"""ED130: WSL and a libcuda that nobody finds."""

from typing import Any

import pytest

from envdoctor.model.facts import CudaLibrary, Host, NvmlCode, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed130_unfound_wsl_driver import unfound_wsl_driver
from tests.builders import a_cuda_library, a_host, an_nvml_session

NO_NVML = an_nvml_session(
    init=NvmlCode(12, "NVML_ERROR_LIBRARY_NOT_FOUND"), device_count=Unavailable("libnvidia-ml.so.1 not found")
)
UNFOUND = a_cuda_library(
    path="/usr/lib/wsl/lib/libcuda.so.1.1", release=Unavailable("no release in the name"), found_through="wsl"
)
FOUND = a_cuda_library(path="/usr/lib/wsl/lib/libcuda.so.1.1", release=Unavailable("no release in the name"))


def under_wsl(*libraries: CudaLibrary, **changes: Any) -> Host:
    machine = {"wsl": True, "linux_release": "5.15.90.1-microsoft-standard-WSL2", "device_nodes": (), "pci_gpus": ()}
    return a_host(cuda_libraries=libraries, **machine | changes)


def test_fires_when_the_folder_of_wsl_is_on_no_path() -> None:
    """https://github.com/bitsandbytes-foundation/bitsandbytes/pull/337."""
    [finding] = unfound_wsl_driver(nvml=NO_NVML, host=under_wsl(UNFOUND))

    assert finding.message == "programs do not find /usr/lib/wsl/lib/libcuda.so.1.1, the libcuda of Windows, under WSL"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("export LD_LIBRARY_PATH=/usr/lib/wsl/lib",)


@pytest.mark.parametrize("host", [under_wsl(FOUND), under_wsl(FOUND, UNFOUND), under_wsl()])
def test_is_silent_when_it_is_found_or_not_there(host: Host) -> None:
    assert not unfound_wsl_driver(nvml=NO_NVML, host=host)


def test_is_silent_when_nvml_is_found_all_the_same() -> None:
    assert not unfound_wsl_driver(nvml=an_nvml_session(), host=under_wsl(UNFOUND))


@pytest.mark.parametrize("host", [a_host(), under_wsl(UNFOUND, container="docker", container_evidence="/.dockerenv")])
def test_has_nothing_to_judge_elsewhere(host: Host) -> None:
    [conclusion] = unfound_wsl_driver.check(nvml=NO_NVML, host=host)

    assert isinstance(conclusion, NotApplicable)
