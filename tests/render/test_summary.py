"""The verdicts: above all, when "ok" must not be said."""

from dataclasses import replace

import pytest

from envdoctor import api
from envdoctor.model.facts import Absence, Facts, TorchBuild, Unavailable
from envdoctor.model.finding import Evidence, Finding, Outcome, Report, Status
from envdoctor.render._summary import Verdict, header, summary, verdicts
from tests.builders import (
    NO_TORCH,
    a_failed_load,
    a_gpu,
    a_library,
    a_loader,
    a_missing_library,
    a_named_gpu,
    a_torch,
    healthy_facts,
)
from tests.render.reports import ALL_WELL, BUGGY, DRIVER_TOO_OLD, EVERYTHING, NO_DEVICE_CODE, ODD, REPORTS, failed

PASSED = Outcome(rule=NO_DEVICE_CODE, status=Status.PASSED)
NOTE = Finding(message="odd", evidence=(Evidence(source="s", value="v"),))


def verdict_of(*outcomes: Outcome, facts: Facts | None = None) -> Verdict:
    [card] = verdicts(Report(facts=facts or healthy_facts(), outcomes=outcomes))
    return card.verdict


def test_a_card_is_ok_when_its_code_was_judged_and_nothing_was_found() -> None:
    assert verdict_of(PASSED) is Verdict.OK


def test_a_note_leaves_a_card_ok() -> None:
    report = Report(facts=healthy_facts(), outcomes=(PASSED, failed(ODD, NOTE)))

    assert summary(report) == "ok, 1 note on NVIDIA GeForce RTX 4090"


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(rule=DRIVER_TOO_OLD, status=Status.UNKNOWN, reasons=("mute",)),
        Outcome(rule=BUGGY, status=Status.CRASHED, reasons=("ValueError",)),
        failed(ODD, NOTE, reasons=("half of it could not be read",)),
    ],
)
def test_a_card_is_not_ok_while_a_rule_could_not_tell(outcome: Outcome) -> None:
    assert verdict_of(PASSED, outcome) is Verdict.UNDECIDED


@pytest.mark.parametrize("torch", [NO_TORCH, a_torch("2.13.0+cpu")])
def test_a_card_is_not_ok_when_there_is_no_code_to_judge(torch: TorchBuild | Unavailable) -> None:
    facts = healthy_facts(torch=torch, device_code=())

    assert verdict_of(PASSED, facts=facts) is Verdict.NOT_JUDGED


def test_a_library_with_code_is_enough_to_judge() -> None:
    facts = healthy_facts(torch=NO_TORCH, device_code=(a_library("sm_80"),))

    assert verdict_of(PASSED, facts=facts) is Verdict.OK
    assert summary(Report(facts=facts, outcomes=(PASSED,))) == "ok, torch not judged on NVIDIA GeForce RTX 4090"


def test_a_card_whose_driver_is_not_known_is_ok_but_for_the_driver() -> None:
    facts = healthy_facts(driver=Unavailable("cards were named", Absence.NOT_APPLICABLE), gpus=(a_named_gpu(),))

    assert summary(Report(facts=facts, outcomes=(PASSED,))) == "ok, driver not judged on NVIDIA GeForce RTX 4090"


@pytest.mark.parametrize("facts", [None, healthy_facts(device_code=Unavailable("denied"))])
def test_a_card_is_not_ok_when_the_rules_about_code_were_left_out(facts: Facts | None) -> None:
    skipped = Outcome(rule=NO_DEVICE_CODE, status=Status.SKIPPED, reasons=("not selected",))

    assert verdict_of(skipped, facts=facts) is Verdict.NOT_JUDGED


def test_a_lost_card_leaves_the_code_judged_for_the_one_beside_it() -> None:
    lost = a_gpu(index=1, compute_capability=Unavailable("GPU is lost"))
    report = api.judge(healthy_facts(gpus=(a_gpu("8.9"), lost)))

    assert "GPU code not judged" not in summary(report)
    assert "undecided" in summary(report)


def test_what_is_left_open_for_one_card_is_told_for_the_others() -> None:
    cards = healthy_facts(gpus=(a_gpu(index=0), a_gpu(index=1)))
    lost = Outcome(rule=DRIVER_TOO_OLD, status=Status.UNKNOWN, reasons=("mute",), undecided_gpus=(1,))
    report = Report(facts=cards, outcomes=(PASSED, lost))

    assert [card.verdict for card in verdicts(report)] == [Verdict.OK, Verdict.UNDECIDED]
    assert summary(report) == "ok on GPU 0; nothing bad found, 1 rule undecided on GPU 1"


def test_every_card_has_its_own_verdict() -> None:
    assert [card.verdict for card in verdicts(EVERYTHING)] == [Verdict.ERRORS, Verdict.WARNINGS]


def test_cards_of_one_name_are_told_apart_by_their_number() -> None:
    pair = healthy_facts(gpus=(a_gpu(index=0), a_gpu(index=1)))

    assert summary(Report(facts=pair, outcomes=(PASSED,))) == "ok on GPU 0, GPU 1"


def test_many_cards_with_the_same_verdict_are_counted() -> None:
    eight = healthy_facts(gpus=tuple(a_gpu(index=index) for index in range(8)))

    assert summary(Report(facts=eight, outcomes=(PASSED,))) == "ok on 8 GPUs"


def test_different_verdicts_are_told_apart() -> None:
    facts = healthy_facts(gpus=(a_named_gpu(), a_named_gpu("8.6", index=1, name="NVIDIA RTX A6000")))
    on_first = Finding(message="bad", evidence=NOTE.evidence, gpus=(0,))
    report = Report(facts=facts, outcomes=(failed(NO_DEVICE_CODE, on_first),))

    assert summary(report) == "1 error on NVIDIA GeForce RTX 4090; ok on NVIDIA RTX A6000"


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        ((), "NVML sees none; name a card with --gpu"),
        (Unavailable("libnvidia-ml.so.1 is missing"), "libnvidia-ml.so.1 is missing"),
    ],
)
def test_without_a_card_the_summary_says_why(gpus: tuple[()] | Unavailable, reason: str) -> None:
    text = summary(Report(facts=healthy_facts(gpus=gpus), outcomes=(PASSED,)))

    assert text == f"0 errors, 0 warnings, 0 notes; no GPU was judged: {reason}"


@pytest.mark.parametrize("name", [name for name in REPORTS if REPORTS[name] is not ALL_WELL])
def test_only_the_healthy_report_says_ok(name: str) -> None:
    assert "ok" not in summary(REPORTS[name]).split()


def test_a_torch_that_does_not_tell_its_cuda_is_said_to_be_built_for_some() -> None:
    lines = dict(header(healthy_facts(torch=a_torch("2.6.0+cu124", build_cuda_version=None))))

    assert lines["torch"] == "2.6.0+cu124, built for CUDA of unknown version, installed by pip"


def test_the_loader_is_summed_up() -> None:
    loader = a_loader(a_failed_load(a_missing_library()))

    assert dict(header(healthy_facts(loader=loader)))["loader"] == "216 of 217 libraries load"
    assert dict(header(healthy_facts(loader=replace(loader, torch=a_missing_library()))))["loader"] == (
        "torch does not load; 216 of 217 libraries that need no torch do"
    )


def test_a_loader_that_was_not_asked_has_no_line() -> None:
    assert "loader" not in dict(header(healthy_facts(loader=a_loader(asked=0))))
    assert "loader" not in dict(header(healthy_facts(loader=Unavailable("not Linux", Absence.NOT_APPLICABLE))))
