"""The format for people: problem, proof, way out, in the shape of rustc's messages; readable without colour."""

from collections.abc import Iterable, Iterator

from envdoctor import __version__
from envdoctor.model.finding import Evidence, Outcome, Remedy, Report, Severity, Status
from envdoctor.render import RenderOptions, printable
from envdoctor.render._lines import BLANK, Line, wrap, write
from envdoctor.render._summary import header, rule_counts, summary, verdicts, why_nothing_was_judged

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}
_FIX = "  fix: "
_NAMED_APART = 4  # rules that one silence left open: more are listed by their codes


def render(report: Report, options: RenderOptions) -> str:
    """Write *report* for a terminal or a log."""
    return write(_lines(report, options), color=options.color)


def _lines(report: Report, options: RenderOptions) -> Iterator[Line]:
    yield (f"envdoctor {__version__}", "bold"), (" examined", "")
    width = options.width
    for label, text in header(report.facts):
        yield from wrap(f"  {label:<11}  ", text, width)
    for outcome in report.failed():
        yield from _failed(outcome, width)
    yield from _undecided(report, options)
    for outcome in report.with_status(Status.CRASHED):
        yield from _crashed(outcome, width)
    if options.verbose:
        yield from _quiet(report, width)
    yield BLANK
    yield from _closing(report, options)


# --- blocks ------------------------------------------------------------------------------------------------------


def _failed(outcome: Outcome, width: int) -> Iterator[Line]:
    rule = outcome.rule
    label = f"{rule.severity.name.lower()}[{rule.code}]: "
    told: set[Remedy] = set()
    for finding in outcome.findings:
        yield BLANK
        yield from wrap(label, finding.message, width, hang=2, style=_STYLES[rule.severity], text_style="bold")
        yield from _proof(finding.evidence, width)
        yield BLANK
        remedy = finding.remedy or Remedy(summary="none is known")
        yield from _way_out(remedy, width, is_told=bool(remedy.commands) and remedy in told)
        told.add(remedy)
    yield from wrap("  more: ", f"envdoctor explain {rule.code}", width, style="cyan")


def _proof(evidence: Iterable[Evidence], width: int) -> Iterator[Line]:
    for item in evidence:
        yield from wrap("  = ", f"{item.source}: {item.value}", width, hang=6, style="blue")


def _way_out(remedy: Remedy, width: int, *, is_told: bool) -> Iterator[Line]:
    """Write what to do; the commands once, where several findings have one way out."""
    admin = " (needs an administrator of this host)" if remedy.needs_admin else ""
    before = "as above: " if is_told else ""
    yield from wrap(_FIX, before + remedy.summary + admin, width, style="green")
    for command in remedy.commands if not is_told else ():
        # A command is never wrapped: it must survive being pasted.
        yield (" " * len(_FIX), ""), (printable(command), "bold")


def _undecided(report: Report, options: RenderOptions) -> Iterator[Line]:
    """Rules that could not tell, gathered by reason: one mute driver silences many of them."""
    label = "  = left open: "
    for reason, outcomes in _by_reason(report.undecided()).items():
        yield BLANK
        yield from wrap("unknown: ", reason, options.width, hang=2, style="bold magenta", text_style="bold")
        if options.verbose or len(outcomes) <= _NAMED_APART:
            yield from _rules(label, outcomes)
        else:
            codes = ", ".join(outcome.rule.code for outcome in outcomes)
            yield from wrap(label, f"{len(outcomes)} rules: {codes}", options.width, hang=6, style="blue")


def _crashed(outcome: Outcome, width: int) -> Iterator[Line]:
    yield BLANK
    message = f"this rule has a bug, please report it: {'; '.join(outcome.reasons)}"
    yield from wrap(f"crashed[{outcome.rule.code}]: ", message, width, hang=2, style="bold magenta")
    yield from _rules("  = left open: ", (outcome,))


def _quiet(report: Report, width: int) -> Iterator[Line]:
    if passed := report.with_status(Status.PASSED):
        yield BLANK
        yield (("passed", "bold green"),)
        yield from _rules("  = ", passed)
    for reason, outcomes in _by_reason(report.with_status(Status.SKIPPED)).items():
        yield BLANK
        yield from wrap("skipped: ", reason, width, hang=2, style="bold")
        yield from _rules("  = ", outcomes)


def _by_reason(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for reason in outcome.reasons:
            grouped.setdefault(reason, []).append(outcome)
    return grouped


def _rules(label: str, outcomes: Iterable[Outcome]) -> Iterator[Line]:
    for outcome in outcomes:
        yield (label, "blue"), (f"{outcome.rule.code} {outcome.rule.name}", "")


def _closing(report: Report, options: RenderOptions) -> Iterator[Line]:
    cards, width = verdicts(report), options.width
    if len(cards) > 1:
        for card in cards:
            yield from wrap(f"GPU {card.gpu.index} {card.gpu.name}: ", card.text, width, hang=2)
    if cards and (reason := why_nothing_was_judged(report)):
        yield from wrap("not judged: ", reason, width, hang=2)
    hint = "" if options.verbose else " (--verbose shows them)"
    yield from wrap("rules: ", rule_counts(report) + hint, width)
    yield from wrap("summary: ", summary(report), width, hang=2, style="bold", text_style="bold")
