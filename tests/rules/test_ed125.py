"""ED125: GPUs on the bus that the driver could not start."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceNode, Host, PciGpu
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed125_unlisted_gpu import unlisted_gpu
from tests.builders import a_driver, a_gpu, a_host, an_nvml_session

RTX_5090 = PciGpu(address="0000:01:00.0", device_id="2b85", driver="nvidia")
RTX_4090 = PciGpu(address="0000:02:00.0", device_id="2684", driver="nvidia")
LISTED = a_gpu("8.9", pci_bus_id="00000000:02:00.0")
NONE_LISTED = an_nvml_session(device_count=0)


def test_fires_when_the_open_module_could_not_start_the_card(kb: KnowledgeBase) -> None:
    """NVIDIA/open-gpu-kernel-modules#872: RTX 5090, open module 575.51.03, `No devices were found`."""
    host, driver = a_host(pci_gpus=(RTX_5090,)), a_driver("575.51.03", open_module=True)
    [finding] = unlisted_gpu(nvml=NONE_LISTED, gpus=(), host=host, kb=kb, driver=driver)

    assert finding.remedy is not None
    assert "Resizable BAR" in finding.remedy.summary


def test_fires_when_one_of_two_cards_is_gone(kb: KnowledgeBase) -> None:
    gone = PciGpu(address="0000:03:00.0", device_id="2684", driver="nvidia")
    host = a_host(pci_gpus=(RTX_4090, gone))
    [finding] = unlisted_gpu(nvml=an_nvml_session(), gpus=(LISTED,), host=host, kb=kb)

    assert finding.message == "the driver does not list the GPU at 0000:03:00.0"
    assert finding.remedy is not None
    assert "Resizable BAR" not in finding.remedy.summary


@pytest.mark.parametrize(
    "pci_gpus",
    [
        (RTX_4090,),
        (RTX_4090, PciGpu(address="0000:03:00.0", device_id="2684", driver="vfio-pci")),
        (RTX_4090, PciGpu(address="0000:03:00.0", device_id="1287", driver="")),  # a GT 730 that it never drove
    ],
)
def test_is_silent_when_the_driver_lists_what_is_its_own(kb: KnowledgeBase, pci_gpus: tuple[PciGpu, ...]) -> None:
    host = a_host(pci_gpus=pci_gpus)

    assert not unlisted_gpu(nvml=an_nvml_session(), gpus=(LISTED,), host=host, kb=kb)


def test_is_silent_when_the_proprietary_module_is_the_cause(kb: KnowledgeBase) -> None:
    host, driver = a_host(pci_gpus=(RTX_5090,)), a_driver("570.144", open_module=False)

    assert not unlisted_gpu(nvml=NONE_LISTED, gpus=(), host=host, kb=kb, driver=driver)


SOME_REFUSED = (
    DeviceNode(path="/dev/nvidia0", openable=True),
    DeviceNode(path="/dev/nvidia1", openable=False, error="EPERM"),
)


@pytest.mark.parametrize(
    "host",
    [
        a_host(container="docker", pci_gpus=(RTX_5090, RTX_4090)),
        a_host(device_nodes=SOME_REFUSED, pci_gpus=(RTX_5090, RTX_4090)),
    ],
)
def test_has_nothing_to_judge_when_only_some_gpus_were_given(kb: KnowledgeBase, host: Host) -> None:
    [conclusion] = unlisted_gpu.check(nvml=an_nvml_session(), gpus=(LISTED,), host=host, kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_is_silent_when_nvml_lists_a_gpu_that_it_cannot_open(kb: KnowledgeBase) -> None:
    """ED108 speaks about it."""
    gpus, host = (a_gpu(pci_bus_id=""),), a_host(pci_gpus=(RTX_4090,))

    assert not unlisted_gpu(nvml=an_nvml_session(), gpus=gpus, host=host, kb=kb)
