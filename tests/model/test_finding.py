"""What a report counts, and for which card."""

import pytest

from envdoctor.model.facts import Facts, Gpu
from envdoctor.model.finding import Evidence, Finding, Outcome, Report, Severity, Status
from envdoctor.model.rule import Conclusions, Rule, rule
from tests.builders import a_named_gpu

FIRST, SECOND = a_named_gpu("8.9", index=0), a_named_gpu("8.6", index=1)


def _nothing() -> Conclusions:
    yield from ()


WARNING = rule("ED901", Severity.WARNING, "a warning")(_nothing)
ERROR = rule("ED902", Severity.ERROR, "an error")(_nothing)


def failed(rule: Rule[...], *gpus: tuple[int, ...]) -> Outcome:
    findings = tuple(Finding(message="bad", evidence=(Evidence(source="s", value="v"),), gpus=on) for on in gpus)
    return Outcome(rule=rule, status=Status.FAILED, findings=findings)


REPORT = Report(facts=Facts(gpus=(FIRST, SECOND)), outcomes=(failed(WARNING, (), (1,)), failed(ERROR, (0,))))


def test_failures_come_worst_first() -> None:
    assert [outcome.rule.code for outcome in REPORT.failed()] == ["ED902", "ED901"]


def test_failures_can_be_limited_to_the_worst() -> None:
    assert [outcome.rule.code for outcome in REPORT.failed(at_least=Severity.ERROR)] == ["ED902"]


@pytest.mark.parametrize(
    ("severity", "gpu", "count"),
    [
        (Severity.WARNING, None, 2),
        (Severity.WARNING, FIRST, 1),
        (Severity.WARNING, SECOND, 2),
        (Severity.ERROR, None, 1),
        (Severity.ERROR, FIRST, 1),
        (Severity.ERROR, SECOND, 0),
        (Severity.INFO, None, 0),
    ],
)
def test_a_finding_that_names_no_card_counts_for_every_card(severity: Severity, gpu: Gpu | None, count: int) -> None:
    assert REPORT.count(severity, gpu) == count


def test_outcomes_can_be_asked_for_by_status() -> None:
    passed = Outcome(rule=ERROR, status=Status.PASSED)
    report = Report(facts=Facts(), outcomes=(passed, failed(WARNING, ())))

    assert report.with_status(Status.PASSED) == (passed,)


def test_a_failure_that_left_something_open_is_undecided_too() -> None:
    unknown = Outcome(rule=ERROR, status=Status.UNKNOWN, reasons=("mute",))
    half = Outcome(rule=WARNING, status=Status.FAILED, reasons=("one file could not be read",))
    skipped = Outcome(rule=WARNING, status=Status.SKIPPED, reasons=("no torch",))
    report = Report(facts=Facts(), outcomes=(unknown, half, skipped, failed(ERROR, ())))

    assert report.undecided() == (unknown, half)
