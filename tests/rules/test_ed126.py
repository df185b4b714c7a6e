"""ED126: NVML that does not start, for no cause that can be proved."""

import pytest

from envdoctor.model.facts import DeviceNode, NvmlCode
from envdoctor.rules.ed126_silent_nvml import silent_nvml
from tests.builders import a_host, an_nvml_session

UNKNOWN = an_nvml_session(init=NvmlCode(999, "NVML_ERROR_UNKNOWN"))


@pytest.mark.parametrize(
    "code",
    [NvmlCode(999, "NVML_ERROR_UNKNOWN"), NvmlCode(4, "NVML_ERROR_NO_PERMISSION"), NvmlCode(10, "NVML_ERROR_TIMEOUT")],
)
def test_fires_on_a_start_that_fails_without_a_known_cause(code: NvmlCode) -> None:
    [finding] = silent_nvml(nvml=an_nvml_session(init=code), host=a_host())

    assert finding.message == f"NVML does not start: {code.name} ({code.number})"


@pytest.mark.parametrize(("container", "summary"), [("docker", "container anew"), ("", "reboot the host")])
def test_the_remedy_fits_the_place(container: str, summary: str) -> None:
    [finding] = silent_nvml(nvml=UNKNOWN, host=a_host(container=container))

    assert finding.remedy is not None
    assert summary in finding.remedy.summary


def test_fires_where_nothing_is_known_of_the_host() -> None:
    assert silent_nvml(nvml=UNKNOWN)


@pytest.mark.parametrize("number", [0, 9, 12, 18])
def test_is_silent_about_what_has_a_rule_of_its_own(number: int) -> None:
    assert not silent_nvml(nvml=an_nvml_session(init=NvmlCode(number, "")), host=a_host())


def test_is_silent_when_the_device_nodes_are_closed() -> None:
    nodes = (DeviceNode(path="/dev/nvidiactl", openable=False, error="EPERM"),)

    assert not silent_nvml(nvml=UNKNOWN, host=a_host(device_nodes=nodes))
