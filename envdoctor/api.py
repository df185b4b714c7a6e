"""The composition root: wires probes, rules and the knowledge base."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

from envdoctor import kb
from envdoctor.engine import diagnose
from envdoctor.errors import FactsError
from envdoctor.model.codec import CodecError
from envdoctor.model.facts import Facts
from envdoctor.model.facts_file import load_facts
from envdoctor.model.finding import Evidence, Finding, Outcome, Report, Status
from envdoctor.probes import Plan, collect
from envdoctor.rules import find_rules, load_rules

if TYPE_CHECKING:
    from envdoctor.model.story import Explanation, LibraryStory

NOT_SELECTED = "not selected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rules run: each word is a code, the beginning of codes, or a name."""

    select: tuple[str, ...] = ()  # empty: all
    ignore: tuple[str, ...] = ()


ALL_RULES = Selection()


def examine(plan: Plan, selection: Selection = ALL_RULES) -> Report:
    """Collect the facts that *plan* asks for, and judge them."""
    # A first judgement, of which only this is kept: the rules are imported, and the tables that they ask for are read.
    return judge(collect(plan, kb.load(), meanwhile=judge), selection)


def explain_library(plan: Plan, asked: str) -> "Explanation":
    """Tell the story of the library that *asked* means.

    Raises:
        UnknownLibraryError: nothing in the environment goes by that name.
        ProbeError: what the loader will do there cannot be told.

    """
    from envdoctor.model.story import Explanation
    from envdoctor.probes.story import find_story

    facts = find_facts(plan)
    story = find_story(asked, facts, kb.load())
    about = ((outcome, _about(outcome, story.library)) for outcome in judge(facts).failed())
    return Explanation(
        story=story, outcomes=tuple(replace(outcome, findings=findings) for outcome, findings in about if findings)
    )


def _about(outcome: Outcome, library: "LibraryStory") -> tuple[Finding, ...]:
    """Choose the findings that name a library, or quote what the loader says to it."""
    return tuple(
        finding
        for finding in outcome.findings
        if _is_named(library, finding.message)
        or any(
            _is_named(library, f"{each.source} {each.value}") or _is_quoted(library, each) for each in finding.evidence
        )
    )


def _is_named(library: "LibraryStory", text: str) -> bool:
    return library.path in text or library.place in text


def _is_quoted(library: "LibraryStory", evidence: Evidence) -> bool:
    """Tell whether the loader says that to a library: not where it says the same to that of another package."""
    package, _, rest = evidence.source.partition("/")
    is_of_another = bool(rest) and package != library.place.partition("/")[0]
    return library.failure is not None and library.failure.words in evidence.value and not is_of_another


def find_facts(plan: Plan) -> Facts:
    """Collect the facts that *plan* asks for."""
    return collect(plan, kb.load())


def read_facts(file: TextIO) -> Facts:
    """Read facts that were collected before, here or on another machine.

    Raises:
        FactsError: the file is not what `envdoctor collect` writes; the message holds the path to the fault.

    """
    try:
        return load_facts(file.read())
    except (CodecError, UnicodeDecodeError, OSError) as exc:
        raise FactsError(f"{file.name}: {exc}") from exc


def judge(facts: Facts, selection: Selection = ALL_RULES) -> Report:
    """Judge facts; a rule that *selection* leaves out is in the report as skipped.

    Raises:
        UnknownRuleError: a word of *selection* means no rule.

    """
    ignored = {rule.code for word in selection.ignore for rule in find_rules(word)}
    selected = {rule.code for word in selection.select for rule in find_rules(word)}
    chosen = (selected or {rule.code for rule in load_rules()}) - ignored
    report = diagnose(facts, kb.load(), [rule for rule in load_rules() if rule.code in chosen])
    left_out = [
        Outcome(rule=rule, status=Status.SKIPPED, reasons=(NOT_SELECTED,))
        for rule in load_rules()
        if rule.code not in chosen
    ]
    outcomes = sorted((*report.outcomes, *left_out), key=lambda outcome: outcome.rule.code)
    return Report(facts=facts, outcomes=tuple(outcomes))
