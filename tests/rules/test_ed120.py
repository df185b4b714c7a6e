"""ED120: WSL and the libcuda that wins there."""

from typing import Any

import pytest

from envdoctor.model.facts import CudaLibrary, Host, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed120_shadowed_wsl_driver import shadowed_wsl_driver
from tests.builders import a_cuda_library, a_host

OF_WINDOWS = a_cuda_library(
    path="/usr/lib/wsl/lib/libcuda.so.1.1", release=Unavailable("the file name has no driver release")
)
OF_LINUX = a_cuda_library("535.161.07")


def under_wsl(*libraries: CudaLibrary, **changes: Any) -> Host:
    machine = {
        "wsl": True,
        "linux_release": "5.15.153.1-microsoft-standard-WSL2",
        "device_nodes": (),
        "pci_gpus": (),
        "cuda_libraries": libraries,
    }
    return a_host(**machine | changes)


def test_fires_when_the_linux_driver_is_found_first() -> None:
    [finding] = shadowed_wsl_driver(host=under_wsl(OF_LINUX, OF_WINDOWS))

    assert finding.evidence[0].value == OF_LINUX.path
    assert finding.remedy is not None
    assert "export LD_LIBRARY_PATH=/usr/lib/wsl/lib" in finding.remedy.commands


@pytest.mark.parametrize(
    "host",
    [
        under_wsl(OF_WINDOWS),
        under_wsl(OF_WINDOWS, OF_LINUX),
        under_wsl(OF_LINUX),  # no driver in Windows: nothing is hidden
        under_wsl(),
    ],
)
def test_is_silent_when_nothing_hides_windows(host: Host) -> None:
    assert not list(shadowed_wsl_driver.check(host=host))


@pytest.mark.parametrize(
    "host",
    [
        a_host(cuda_libraries=(OF_LINUX,)),
        under_wsl(OF_LINUX, OF_WINDOWS, container="docker", container_evidence="/.dockerenv"),
    ],
)
def test_has_nothing_to_judge_elsewhere(host: Host) -> None:
    [conclusion] = shadowed_wsl_driver.check(host=host)

    assert isinstance(conclusion, NotApplicable)
