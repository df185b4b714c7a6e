"""ED006: what the environment needs comes from outside of it."""

import pytest

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed006_borrowed_distributions import borrowed_distributions
from tests.builders import SITE_PACKAGES, an_environment
from tests.rules.search_paths import SHARED, USER, in_folder, pair, searching


def needing(*requires: str) -> Distribution:
    return in_folder(SITE_PACKAGES, "timm", "0.9.2", requires=requires)


@pytest.mark.parametrize(("folder", "origin"), [(USER, "user site"), (SHARED, "PYTHONPATH")])
def test_fires_at_a_requirement_that_is_met_outside(folder: str, origin: str) -> None:
    [finding] = borrowed_distributions(
        environment=searching((folder, origin)),
        distributions=(in_folder(folder, "huggingface-hub", "0.20.1"), needing("huggingface_hub (>=0.17)")),
    )

    assert finding.message == "the environment needs huggingface-hub, and does not have it"
    assert finding.evidence[0].source == f"{origin} {folder}"
    assert finding.evidence[0].value == "huggingface-hub 0.20.1, which timm requires"


def test_of_many_some_are_named() -> None:
    outside = [in_folder(USER, f"pkg{number}", "1") for number in range(12)]
    [finding] = borrowed_distributions(
        environment=searching((USER, "user site")),
        distributions=(*outside, needing(*(one.name for one in outside))),
    )

    assert finding.message.endswith("and 2 more, and does not have them")


@pytest.mark.parametrize(
    "requirement", ["einops ; extra == 'vision'", "einops ; python_version < '3.8'", "safetensors", "einops >= 0.6 0.7"]
)
def test_is_silent_where_nothing_is_required_for_certain(requirement: str) -> None:
    distributions = (in_folder(USER, "einops", "0.6"), needing(requirement))

    assert not borrowed_distributions(environment=searching((USER, "user site")), distributions=distributions)


def test_is_silent_about_what_the_environment_has_itself() -> None:
    distributions = (*pair(USER, "einops", "0.6", "0.7"), needing("einops"))

    assert not borrowed_distributions(environment=searching((USER, "user site")), distributions=distributions)


def test_leaves_the_torch_of_the_user_site_to_the_rule_about_it() -> None:
    distributions = (in_folder(USER, "torch", "1.13.1"), needing("torch (>=1.7)"))

    assert not borrowed_distributions(environment=searching((USER, "user site")), distributions=distributions)


@pytest.mark.parametrize("environment", [an_environment(), searching((USER, "user site"), kind="system")])
def test_is_not_asked_where_nothing_lies_outside(environment: Environment) -> None:
    [conclusion] = borrowed_distributions.check(environment=environment, distributions=())

    assert isinstance(conclusion, NotApplicable)
