"""ED118: Blackwell cards under the proprietary kernel module."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Driver, Gpu, Host, PciGpu, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed118_proprietary_module_on_blackwell import proprietary_module_on_blackwell
from tests.builders import a_driver, a_gpu, a_host, an_nvml_session

RTX_5090 = PciGpu(address="0000:01:00.0", device_id="2b85", driver="nvidia")
RTX_4090 = PciGpu(address="0000:02:00.0", device_id="2684", driver="nvidia")
PROPRIETARY = a_driver("570.144", open_module=False)
NONE_LISTED = an_nvml_session(device_count=0)


@pytest.mark.parametrize("driver", ["nvidia", ""])
def test_fires_when_the_proprietary_module_leaves_the_card_out(kb: KnowledgeBase, driver: str) -> None:
    """getsolus/packages#5575: RTX 5090, driver 570.144, `No devices were found`."""
    host = a_host(pci_gpus=(PciGpu(address="0000:01:00.0", device_id="2B85", driver=driver),))
    [finding] = proprietary_module_on_blackwell(nvml=NONE_LISTED, gpus=(), host=host, driver=PROPRIETARY, kb=kb)

    assert finding.remedy is not None
    assert "open kernel modules" in finding.remedy.summary


def test_fires_beside_an_older_card_that_works(kb: KnowledgeBase) -> None:
    host = a_host(pci_gpus=(RTX_5090, RTX_4090))
    listed = (a_gpu("8.9", pci_bus_id="00000000:02:00.0"),)
    [finding] = proprietary_module_on_blackwell(
        nvml=an_nvml_session(), gpus=listed, host=host, driver=PROPRIETARY, kb=kb
    )

    assert finding.evidence[0].source == "/sys/bus/pci/devices/0000:01:00.0"


@pytest.mark.parametrize(
    ("gpus", "host"),
    [
        ((), a_host(pci_gpus=(RTX_4090,))),
        ((), a_host(pci_gpus=(PciGpu(address="0000:01:00.0", device_id="ffff", driver="nvidia"),))),
        ((a_gpu("12.0", pci_bus_id="00000000:01:00.0"),), a_host(pci_gpus=(RTX_5090,))),
    ],
)
def test_is_silent_without_a_blackwell_card_that_is_left_out(
    kb: KnowledgeBase, gpus: tuple[Gpu, ...], host: Host
) -> None:
    assert not proprietary_module_on_blackwell(nvml=NONE_LISTED, gpus=gpus, host=host, driver=PROPRIETARY, kb=kb)


@pytest.mark.parametrize(
    ("driver", "host"),
    [
        # NVIDIA/open-gpu-kernel-modules#872: the open module was loaded, the cause is another (ED125)
        (a_driver("575.51.03", open_module=True), a_host(pci_gpus=(RTX_5090,))),
        (a_driver("575.51.03", open_module=Unavailable("not told")), a_host(pci_gpus=(RTX_5090,))),
        (PROPRIETARY, a_host(pci_gpus=())),
        (PROPRIETARY, a_host(pci_gpus=(PciGpu(address="0000:01:00.0", device_id="2b85", driver="vfio-pci"),))),
    ],
)
def test_has_nothing_to_judge_for_other_modules(kb: KnowledgeBase, driver: Driver, host: Host) -> None:
    [conclusion] = proprietary_module_on_blackwell.check(nvml=NONE_LISTED, gpus=(), host=host, driver=driver, kb=kb)

    assert isinstance(conclusion, NotApplicable)
