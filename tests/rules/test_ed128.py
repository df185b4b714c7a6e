"""ED128: cards that older drivers do not know."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Gpu, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed128_gpu_newer_than_driver import gpu_newer_than_driver
from tests.builders import a_driver, a_gpu, a_named_gpu


@pytest.mark.parametrize(
    ("capability", "driver", "first"),
    [
        ("7.5", "396.82", "R410"),
        ("8.0", "440.33.01", "R450"),
        ("8.6", "450.80.02", "R455"),
        ("8.9", "515.105.01", "R520"),
        ("9.0", "470.256.02", "R520"),
        ("12.0", "565.77", "R570"),
        ("10.3", "570.211.01", "R575"),
    ],
)
def test_fires_for_a_card_that_came_after_the_driver(
    kb: KnowledgeBase, capability: str, driver: str, first: str
) -> None:
    gpus = (a_named_gpu("7.0"), a_named_gpu(capability, index=1))
    [finding] = gpu_newer_than_driver(driver=a_driver(driver, source="--driver"), gpus=gpus, kb=kb)

    assert finding.gpus == (1,)
    assert first in finding.message


@pytest.mark.parametrize(
    ("gpu", "driver"),
    [
        (a_named_gpu("8.6"), "455.23.05"),
        (a_named_gpu("8.9"), "525.60.13"),
        (a_named_gpu("12.0"), "570.86.15"),
        (a_named_gpu("6.1"), "384.81"),
        (a_named_gpu("8.9"), "700.10"),
        (a_gpu("12.0"), "565.77"),  # NVML lists it, so the driver supports it
        (a_named_gpu(compute_capability=Unavailable("not known")), "450.80.02"),
    ],
)
def test_is_silent_about_cards_that_the_driver_knows(kb: KnowledgeBase, gpu: Gpu, driver: str) -> None:
    assert not gpu_newer_than_driver(driver=a_driver(driver), gpus=(gpu,), kb=kb)


def test_has_nothing_to_judge_without_a_driver(kb: KnowledgeBase) -> None:
    driver = a_driver(release_version=Unavailable("no driver"))
    [conclusion] = gpu_newer_than_driver.check(driver=driver, gpus=(a_named_gpu("12.0"),), kb=kb)

    assert isinstance(conclusion, NotApplicable)
