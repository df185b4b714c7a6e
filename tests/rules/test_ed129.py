"""ED129: the driver that a card to be rented must have."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Driver, Gpu, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed129_unnamed_driver import unnamed_driver
from tests.builders import a_driver, a_gpu, a_named_gpu, a_torch


@pytest.mark.parametrize(
    ("torch", "capability", "driver"),
    [
        ("2.14.1+cu130", "8.9", "580"),
        ("2.1.2+cu121", "8.9", "525.60.13"),
        ("1.13.1+cu117", "8.6", "455"),  # CUDA 11 would do with 450.80.02, an RTX 3090 would not
        ("2.7.1+cu128", "12.0", "570"),
        ("1.10.2+cu102", "7.0", "440.33"),
    ],
)
def test_names_the_driver_for_build_and_card(kb: KnowledgeBase, torch: str, capability: str, driver: str) -> None:
    [finding] = unnamed_driver(gpus=(a_named_gpu(capability),), torch=a_torch(torch), kb=kb)

    assert f"needs a host with driver {driver} or newer" in finding.message
    assert finding.gpus == (0,)


def test_cards_that_need_the_same_are_one_finding(kb: KnowledgeBase) -> None:
    gpus = (a_named_gpu("8.9"), a_named_gpu("12.0", index=1), a_named_gpu("8.6", index=2))
    findings = unnamed_driver(gpus=gpus, torch=a_torch("2.7.1+cu128"), kb=kb)

    assert [finding.gpus for finding in findings] == [(0, 2), (1,)]


def test_a_card_without_a_known_capability_needs_what_the_build_needs(kb: KnowledgeBase) -> None:
    gpu = a_named_gpu(compute_capability=Unavailable("not known"))
    [finding] = unnamed_driver(gpus=(gpu,), torch=a_torch("2.14.1+cu130"), kb=kb)

    assert "driver 580 or newer" in finding.message


@pytest.mark.parametrize(
    ("gpu", "torch", "driver"),
    [
        (a_named_gpu("8.9"), "2.14.1+cu130", a_driver("580.65.06")),
        (a_gpu("8.9"), "2.14.1+cu130", None),
        (a_named_gpu("8.9"), "2.13.0+cpu", None),
    ],
    ids=["driver named", "card is here", "CPU build"],
)
def test_has_nothing_to_say(kb: KnowledgeBase, gpu: Gpu, torch: str, driver: Driver | None) -> None:
    [conclusion] = unnamed_driver.check(gpus=(gpu,), torch=a_torch(torch), kb=kb, driver=driver)

    assert isinstance(conclusion, NotApplicable)
