"""How rules are run, and how each ends."""

import pytest

from envdoctor.engine import diagnose
from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Absence, Driver, Facts, Gpu, TorchBuild, Unavailable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Outcome, Severity, Status, Undecided
from envdoctor.model.rule import Conclusions, Rule, rule
from tests.builders import NO_TORCH, a_gpu, a_torch, healthy_facts

SILENT = Unavailable("NVML did not answer")


@rule("ED901", Severity.ERROR, "there is a card")
def card(gpus: tuple[Gpu, ...]) -> Conclusions:
    for gpu in gpus:
        yield Finding(message=f"{gpu.name} is there", evidence=(Evidence(source="NVML", value=gpu.uuid),))


@rule("ED902", Severity.WARNING, "torch is old")
def old_torch(torch: TorchBuild, gpus: tuple[Gpu, ...], driver: Driver | None = None) -> Conclusions:
    if not gpus:
        yield NotApplicable("there is no GPU")
    elif torch.version.startswith("1."):
        yield Finding(message=f"driver {driver and driver.source}", evidence=(Evidence(source="torch", value="1"),))
        yield Undecided("its C library could not be read")
    elif torch.version.startswith("0."):
        yield Undecided("no version.py")


@rule("ED903", Severity.ERROR, "this rule has a bug")
def buggy(gpus: tuple[Gpu, ...]) -> Conclusions:
    yield Finding(message=gpus[99].name, evidence=())


@rule("ED904", Severity.INFO, "the knowledge base is there")
def knowing(kb: KnowledgeBase) -> Conclusions:
    yield Undecided(type(kb).__name__)


def run(rule: Rule[...], facts: Facts, kb: KnowledgeBase) -> Outcome:
    [outcome] = diagnose(facts, kb, [rule]).outcomes
    return outcome


def test_a_rule_that_finds_something_fails(kb: KnowledgeBase) -> None:
    outcome = run(card, Facts(gpus=(a_gpu(),)), kb)

    assert outcome.status is Status.FAILED
    assert [finding.message for finding in outcome.findings] == ["NVIDIA GeForce RTX 4090 is there"]


def test_a_rule_that_yields_nothing_passes(kb: KnowledgeBase) -> None:
    assert run(card, Facts(gpus=()), kb).status is Status.PASSED


@pytest.mark.parametrize(
    ("facts", "status", "reasons"),
    [
        (Facts(torch=NO_TORCH, gpus=(a_gpu(),)), Status.SKIPPED, ("torch is not installed",)),
        (Facts(torch=a_torch(), gpus=SILENT), Status.UNKNOWN, ("NVML did not answer",)),
        # What does not exist explains better than what could not be read.
        (Facts(torch=NO_TORCH, gpus=SILENT), Status.SKIPPED, ("torch is not installed",)),
        (Facts(torch=SILENT, gpus=SILENT), Status.UNKNOWN, ("NVML did not answer",)),
        (Facts(), Status.SKIPPED, ("not probed",)),
        (Facts(torch=a_torch(), gpus=()), Status.SKIPPED, ("there is no GPU",)),
        (Facts(torch=a_torch("0.4.1"), gpus=(a_gpu(),)), Status.UNKNOWN, ("no version.py",)),
        (Facts(torch=a_torch("1.0.0"), gpus=(a_gpu(),)), Status.FAILED, ("its C library could not be read",)),
    ],
)
def test_a_rule_that_cannot_judge_says_why(
    facts: Facts, status: Status, reasons: tuple[str, ...], kb: KnowledgeBase
) -> None:
    outcome = run(old_torch, facts, kb)

    assert (outcome.status, outcome.reasons) == (status, reasons)


def test_a_fact_that_is_only_used_is_passed_when_it_is_there(kb: KnowledgeBase) -> None:
    [with_driver] = run(old_torch, healthy_facts(torch=a_torch("1.0.0")), kb).findings
    [without] = run(old_torch, healthy_facts(torch=a_torch("1.0.0"), driver=SILENT), kb).findings

    assert (with_driver.message, without.message) == ("driver /sys/module/nvidia/version", "driver None")


def test_a_crash_of_one_rule_leaves_the_others_standing(kb: KnowledgeBase) -> None:
    report = diagnose(Facts(gpus=(a_gpu(),)), kb, [buggy, card])

    assert [outcome.status for outcome in report.outcomes] == [Status.CRASHED, Status.FAILED]
    assert report.outcomes[0].reasons == ("IndexError: tuple index out of range",)


def test_a_rule_is_given_the_knowledge_base_when_it_asks(kb: KnowledgeBase) -> None:
    assert run(knowing, Facts(), kb).reasons == ("KnowledgeBase",)


def test_absence_is_unreadable_unless_said_otherwise() -> None:
    assert SILENT.absence is Absence.UNREADABLE


def test_a_very_long_value_is_quoted_by_its_ends(kb: KnowledgeBase) -> None:
    """CUDA_VISIBLE_DEVICES may hold 100 KB, and so may a name."""
    outcome = run(card, Facts(gpus=(a_gpu(name="a" * 100_000, uuid="b" * 100_000 + "c"),)), kb)

    [finding] = outcome.findings
    assert len(finding.message) < 3000
    assert finding.message.endswith("aaa is there")
    assert "bbb [... 98001 characters ...] bbb" in finding.evidence[0].value


@pytest.mark.parametrize(
    ("gpus", "expected"), [([(1,), (0,)], (0, 1)), ([(2,), (2,)], (2,)), ([(1,), ()], ()), ([()], ())]
)
def test_cards_that_are_left_open_are_gathered(
    gpus: list[tuple[int, ...]], expected: tuple[int, ...], kb: KnowledgeBase
) -> None:
    @rule("ED905", Severity.INFO, "cards are mute")
    def mute_cards() -> Conclusions:
        yield from (Undecided("mute", each) for each in gpus)

    assert run(mute_cards, Facts(), kb).undecided_gpus == expected
