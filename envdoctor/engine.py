"""Runs rules against facts."""

from collections.abc import Iterable
from dataclasses import replace

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Absence, Facts, Unavailable
from envdoctor.model.finding import Finding, NotApplicable, Outcome, Report, Status, Undecided
from envdoctor.model.rule import KNOWLEDGE_BASE, Rule

_LONGEST = 2000  # characters of one message, or of the value of one piece of evidence


def diagnose(facts: Facts, kb: KnowledgeBase, rules: Iterable[Rule[...]]) -> Report:
    """Run every rule; one that crashes never takes the others down."""
    return Report(facts=facts, outcomes=tuple(_run(rule, facts, kb) for rule in rules))


def _run(rule: Rule[...], facts: Facts, kb: KnowledgeBase) -> Outcome:
    needed = {name: getattr(facts, name) for name in rule.needs}
    missing = {name: fact for name, fact in needed.items() if isinstance(fact, Unavailable)}
    if missing:
        # What does not exist here explains better than what could not be read.
        not_applicable = [fact for fact in missing.values() if fact.absence is Absence.NOT_APPLICABLE]
        reasons = tuple(dict.fromkeys(fact.reason for fact in not_applicable or missing.values()))
        return Outcome(rule=rule, status=Status.SKIPPED if not_applicable else Status.UNKNOWN, reasons=reasons)

    used = {name: getattr(facts, name) for name in rule.uses}
    arguments = needed | {name: fact for name, fact in used.items() if not isinstance(fact, Unavailable)}
    if rule.asks_kb:
        arguments[KNOWLEDGE_BASE] = kb
    try:
        conclusions = tuple(rule.check(**arguments))
    except Exception as exc:  # noqa: BLE001  the one broad except: a rule's bug must not hide the other findings
        return Outcome(rule=rule, status=Status.CRASHED, reasons=(f"{type(exc).__name__}: {exc}",))

    findings = tuple(_shorten(conclusion) for conclusion in conclusions if isinstance(conclusion, Finding))
    undecided = tuple(conclusion for conclusion in conclusions if isinstance(conclusion, Undecided))
    if findings or undecided:
        return Outcome(
            rule=rule,
            status=Status.FAILED if findings else Status.UNKNOWN,
            findings=findings,
            reasons=tuple(_cut(one.reason) for one in undecided),
            undecided_gpus=_find_open_gpus(undecided),
        )
    nothing_to_judge = tuple(conclusion.reason for conclusion in conclusions if isinstance(conclusion, NotApplicable))
    status = Status.SKIPPED if nothing_to_judge else Status.PASSED
    return Outcome(rule=rule, status=status, reasons=nothing_to_judge)


def _find_open_gpus(undecided: tuple[Undecided, ...]) -> tuple[int, ...]:
    """Return the cards that something is left open for, () where something is for all of them."""
    if not all(one.gpus for one in undecided):
        return ()
    return tuple(sorted({index for one in undecided for index in one.gpus}))


def _shorten(finding: Finding) -> Finding:
    evidence = tuple(replace(item, value=_cut(item.value)) for item in finding.evidence)
    return replace(finding, message=_cut(finding.message), evidence=evidence)


def _cut(text: str) -> str:
    """Leave the middle of a very long text out: a variable or a name in a file may have any length."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} [... {len(text) - _LONGEST} characters ...] {text[-_LONGEST // 2 :]}"
