"""ED106: device nodes that this process cannot open."""

from typing import Any

import pytest

from envdoctor.model.facts import DeviceNode, Host, NvmlCode, NvmlSession, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed106_inaccessible_driver_nodes import inaccessible_driver_nodes
from tests.builders import a_host, a_torch, an_nvml_session

UNKNOWN = an_nvml_session(init=NvmlCode(999, "NVML_ERROR_UNKNOWN"), device_count=Unavailable("NVML did not start"))
NOT_LOADED = an_nvml_session(
    init=NvmlCode(9, "NVML_ERROR_DRIVER_NOT_LOADED"), device_count=Unavailable("NVML did not start")
)


def nodes(error: str, *paths: str) -> tuple[DeviceNode, ...]:
    return tuple(DeviceNode(path=path, openable=not error, error=error) for path in paths)


def a_container(**changes: Any) -> Host:
    return a_host(**{"container": "docker", "container_evidence": "/.dockerenv"} | changes)


def test_fires_when_a_container_lost_its_devices() -> None:
    """NVIDIA/nvidia-docker#1671: worked until systemd reloaded on the host."""
    host = a_container(device_nodes=nodes("EPERM", "/dev/nvidiactl", "/dev/nvidia0"))
    [finding] = inaccessible_driver_nodes(nvml=UNKNOWN, host=host)

    assert finding.message == "this process cannot open /dev/nvidiactl of the NVIDIA driver"
    assert finding.remedy is not None
    assert "create the container anew" in finding.remedy.summary


def test_fires_when_only_unified_memory_is_closed() -> None:
    host = a_container(device_nodes=nodes("", "/dev/nvidiactl", "/dev/nvidia0") + nodes("EPERM", "/dev/nvidia-uvm"))

    assert inaccessible_driver_nodes(nvml=an_nvml_session(), host=host)


def test_an_administrator_mends_file_permissions() -> None:
    host = a_host(device_nodes=nodes("EACCES", "/dev/nvidiactl", "/dev/nvidia-uvm"))
    [finding] = inaccessible_driver_nodes(nvml=an_nvml_session(init=NvmlCode(4, "NVML_ERROR_NO_PERMISSION")), host=host)

    assert finding.remedy is not None
    assert finding.remedy.needs_admin


def test_a_job_without_gpus_is_told_so() -> None:
    host = a_host(device_nodes=nodes("EPERM", "/dev/nvidiactl"))
    [finding] = inaccessible_driver_nodes(nvml=UNKNOWN, host=host)

    assert finding.remedy is not None
    assert "job that asked for GPUs" in finding.remedy.summary


@pytest.mark.parametrize("host", [a_host(device_nodes=()), a_container(device_nodes=())])
def test_fires_when_the_control_node_is_missing_beside_a_bound_gpu(host: Host) -> None:
    [finding] = inaccessible_driver_nodes(nvml=NOT_LOADED, host=host)

    assert "does not exist" in finding.evidence[0].value


@pytest.mark.parametrize(
    ("nvml", "host"),
    [
        (an_nvml_session(), a_host()),
        (UNKNOWN, a_container()),
        (NOT_LOADED, a_host(device_nodes=(), pci_gpus=())),
        (an_nvml_session(), a_host(device_nodes=nodes("", "/dev/nvidiactl") + nodes("EPERM", "/dev/nvidia3"))),
        (an_nvml_session(), a_host(device_nodes=nodes("EIO", "/dev/nvidia-uvm"))),
    ],
)
def test_is_silent_when_nothing_needed_is_refused(nvml: NvmlSession, host: Host) -> None:
    assert not inaccessible_driver_nodes(nvml=nvml, host=host)


def test_has_nothing_to_judge_for_a_torch_without_cuda() -> None:
    host = a_container(device_nodes=nodes("EPERM", "/dev/nvidiactl"))
    [conclusion] = inaccessible_driver_nodes.check(nvml=UNKNOWN, host=host, torch=a_torch("2.6.0+cpu"))

    assert isinstance(conclusion, NotApplicable)
