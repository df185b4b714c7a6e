"""What the rule decorator accepts, and what a rule says about itself."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Gpu, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from tests.builders import a_gpu


@rule("ED901", Severity.WARNING, "the card is blue")
def blue_card(gpus: tuple[Gpu, ...], kb: KnowledgeBase, torch: TorchBuild | None = None) -> Conclusions:  # noqa: ARG001
    """## What it means

    The card is blue.
    """
    yield Undecided("too dark to see the other side")
    for gpu in gpus:
        yield Finding(message=f"{gpu.name} is blue", evidence=(Evidence(source="eye", value="blue"),))


def test_a_rule_knows_the_facts_it_needs_and_those_it_only_uses() -> None:
    assert (blue_card.needs, blue_card.uses, blue_card.asks_kb) == (("gpus",), ("torch",), True)


def test_a_rule_is_named_after_its_function() -> None:
    assert blue_card.name == "blue-card"


def test_the_page_of_a_rule_opens_with_code_name_severity_and_title() -> None:
    assert blue_card.page.startswith("# ED901 blue-card\n\n*warning*: the card is blue\n\n## What it means\n")


def test_calling_a_rule_returns_its_findings_only(kb: KnowledgeBase) -> None:
    [finding] = blue_card(gpus=(a_gpu(),), kb=kb)

    assert finding.message == "NVIDIA GeForce RTX 4090 is blue"


def test_a_rule_that_asks_for_an_unknown_fact_is_refused_when_it_is_declared() -> None:
    def broken(gpuz: tuple[Gpu, ...]) -> Conclusions:
        yield Undecided(str(gpuz))

    with pytest.raises(TypeError, match="ED998 asks for unknown facts: gpuz"):
        rule("ED998", Severity.ERROR, "broken")(broken)


def test_a_rule_without_docstring_says_how_to_read_its_page() -> None:
    @rule("ED997", Severity.INFO, "bare")
    def bare(gpus: tuple[Gpu, ...]) -> Conclusions:
        yield Undecided(str(gpus))

    assert "run envdoctor without that switch" in bare.page
