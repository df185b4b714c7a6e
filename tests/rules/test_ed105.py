"""ED105: GPUs whose kernel driver is not NVIDIA's."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Host, NvmlCode, NvmlSession, PciGpu, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed105_driver_not_loaded import driver_not_loaded
from tests.builders import a_host, a_torch, an_nvml_session

NOT_LOADED = an_nvml_session(
    init=NvmlCode(9, "NVML_ERROR_DRIVER_NOT_LOADED"), device_count=Unavailable("driver not loaded")
)
NO_NVML = an_nvml_session(
    init=NvmlCode(12, "NVML_ERROR_LIBRARY_NOT_FOUND"), device_count=Unavailable("libnvidia-ml.so.1 not found")
)


def a_machine(driver: str, device_id: str = "2684") -> Host:
    return a_host(device_nodes=(), pci_gpus=(PciGpu(address="0000:01:00.0", device_id=device_id, driver=driver),))


@pytest.mark.parametrize("nvml", [NOT_LOADED, NO_NVML])
@pytest.mark.parametrize("driver", ["nouveau", "", "nova_core"])
def test_fires_when_another_driver_or_none_has_the_gpu(kb: KnowledgeBase, nvml: NvmlSession, driver: str) -> None:
    [finding] = driver_not_loaded(nvml=nvml, host=a_machine(driver), kb=kb, torch=a_torch())

    assert finding.remedy is not None
    assert finding.remedy.needs_admin


def test_names_the_chip_and_what_is_bound_to_it(kb: KnowledgeBase) -> None:
    [finding] = driver_not_loaded(nvml=NO_NVML, host=a_machine("nouveau"), kb=kb)

    assert finding.evidence[0].value == "NVIDIA AD102 [10de:2684], bound to `nouveau`"


def test_tells_that_blackwell_wants_the_open_modules(kb: KnowledgeBase) -> None:
    [finding] = driver_not_loaded(nvml=NOT_LOADED, host=a_machine("", device_id="2b85"), kb=kb)

    assert finding.remedy is not None
    assert "open kernel modules" in finding.remedy.summary


def test_tells_the_last_branch_that_drives_an_old_card(kb: KnowledgeBase) -> None:
    """NixOS/nixos-hardware#1880: the 595 driver ignores a GTX 1050 and unloads itself."""
    [finding] = driver_not_loaded(nvml=NOT_LOADED, host=a_machine("", device_id="1c8d"), kb=kb)

    assert finding.remedy is not None
    assert "GP107 needs a driver of branch R580 or older" in finding.remedy.summary


def test_is_silent_when_nvml_starts(kb: KnowledgeBase) -> None:
    assert not driver_not_loaded(nvml=an_nvml_session(), host=a_machine("nouveau"), kb=kb)


@pytest.mark.parametrize("host", [a_machine("nvidia"), a_machine("vfio-pci"), a_host(device_nodes=(), pci_gpus=())])
def test_has_nothing_to_judge_without_an_idle_gpu(kb: KnowledgeBase, host: Host) -> None:
    [conclusion] = driver_not_loaded.check(nvml=NO_NVML, host=host, kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_has_nothing_to_judge_for_a_torch_without_cuda(kb: KnowledgeBase) -> None:
    host = a_machine("nouveau")
    [conclusion] = driver_not_loaded.check(nvml=NO_NVML, host=host, kb=kb, torch=a_torch("2.6.0+cpu"))

    assert isinstance(conclusion, NotApplicable)


def test_leaves_it_undecided_when_the_bus_cannot_be_read(kb: KnowledgeBase) -> None:
    host = a_host(pci_gpus=Unavailable("/sys is not mounted"))
    [conclusion] = driver_not_loaded.check(nvml=NOT_LOADED, host=host, kb=kb)

    assert isinstance(conclusion, Undecided)
