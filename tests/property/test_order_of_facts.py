"""The order in which a probe happened to list things changes no finding."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envdoctor import api
from envdoctor.model.facts import Facts
from envdoctor.model.finding import Finding, Report
from tests.cases import CASES, Case

# The others are ordered on purpose: `sys.path`, what the loader would try first.
UNORDERED = (
    "device_code",
    "distributions",
    "cpu_only_extensions",
    "companions",
    "contested_folders",
    "contested_projects",
    "damaged_installations",
    "jit_extensions",
    "launchers",
    "gpus",
    "peer_access",
    "variables",
)


def shuffle(facts: Facts, random: Random) -> Facts:
    listed = {name: getattr(facts, name) for name in UNORDERED if isinstance(getattr(facts, name), tuple)}
    shuffled: dict[str, Any] = {name: tuple(random.sample(items, len(items))) for name, items in listed.items()}
    return replace(facts, **shuffled)


def conclusions(report: Report) -> list[object]:
    return [
        (outcome.rule.code, outcome.status, set(map(_unordered, outcome.findings)), set(outcome.reasons))
        for outcome in report.outcomes
    ]


def _unordered(finding: Finding) -> object:
    return finding.message, frozenset(finding.evidence), frozenset(finding.gpus)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.slug)
@settings(max_examples=5, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_findings_do_not_depend_on_the_order_of_facts(case: Case, random: Random) -> None:
    reordered = api.judge(shuffle(case.facts, random))

    assert conclusions(reordered) == conclusions(api.judge(case.facts))
