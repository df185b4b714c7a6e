"""ED127: cards that newer drivers do not list."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Gpu, PciGpu, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed127_gpu_dropped_by_driver import gpu_dropped_by_driver
from tests.builders import a_driver, a_gpu, a_host, a_named_gpu

GTX_1080_TI = PciGpu(address="0000:01:00.0", device_id="1b06", driver="")


@pytest.mark.parametrize(
    ("capability", "driver", "last"),
    [("3.7", "525.60.13", "R470"), ("6.1", "590.44.01", "R580"), ("7.0", "595.45.04", "R580")],
)
def test_fires_for_named_cards_under_a_named_driver(kb: KnowledgeBase, capability: str, driver: str, last: str) -> None:
    gpus = (a_named_gpu("8.9"), a_named_gpu(capability, index=1))
    [finding] = gpu_dropped_by_driver(driver=a_driver(driver, source="--driver"), gpus=gpus, kb=kb)

    assert finding.gpus == (1,)
    assert last in finding.message


def test_fires_for_a_card_on_the_bus_that_nvml_does_not_list(kb: KnowledgeBase) -> None:
    host = a_host(pci_gpus=(GTX_1080_TI, PciGpu(address="0000:02:00.0", device_id="2684", driver="nvidia")))
    listed = (a_gpu("8.9", pci_bus_id="00000000:02:00.0"),)
    [finding] = gpu_dropped_by_driver(driver=a_driver("590.44.01"), gpus=listed, kb=kb, host=host)

    assert "GP102 card at 0000:01:00.0" in finding.message


@pytest.mark.parametrize(
    ("gpu", "driver"),
    [
        (a_named_gpu("6.1"), "580.95.05"),
        (a_named_gpu("7.5"), "595.45.04"),
        (a_named_gpu("8.9"), "595.45.04"),
        (a_gpu("6.1"), "590.44.01"),  # NVML lists it, so the driver supports it
        (a_named_gpu(compute_capability=Unavailable("not known")), "595.45.04"),
    ],
)
def test_is_silent_about_supported_cards(kb: KnowledgeBase, gpu: Gpu, driver: str) -> None:
    assert not gpu_dropped_by_driver(driver=a_driver(driver), gpus=(gpu,), kb=kb)


def test_is_silent_about_a_card_on_the_bus_that_the_driver_supports(kb: KnowledgeBase) -> None:
    host = a_host(pci_gpus=(GTX_1080_TI, PciGpu(address="0000:05:00.0", device_id="ffff", driver="")))

    assert not gpu_dropped_by_driver(driver=a_driver("580.95.05"), gpus=(), kb=kb, host=host)


def test_has_nothing_to_judge_without_a_driver(kb: KnowledgeBase) -> None:
    driver = a_driver(release_version=Unavailable("no driver"))
    [conclusion] = gpu_dropped_by_driver.check(driver=driver, gpus=(), kb=kb)

    assert isinstance(conclusion, NotApplicable)
