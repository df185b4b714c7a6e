"""The format for people: problem, proof, way out, in the shape of rustc's messages; readable without colour."""

import textwrap
from collections.abc import Iterable, Iterator

from envdoctor import __version__
from envdoctor.model.finding import Evidence, Finding, Outcome, Remedy, Report, Severity, Status
from envdoctor.render import RenderOptions, printable
from envdoctor.render._summary import header, rule_counts, summary, verdicts, why_nothing_was_judged

# Text and style (Rich's words) of the pieces of one line.
Line = tuple[tuple[str, str], ...]

_BLANK: Line = ()
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}
_FIX = "  fix: "
_NAMED_APART = 4  # rules that one silence left open: more are listed by their codes


def render(report: Report, options: RenderOptions) -> str:
    """Write *report* for a terminal or a log."""
    lines = _lines(report, options)
    if options.color:
        return _paint(lines)
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def _lines(report: Report, options: RenderOptions) -> Iterator[Line]:
    yield (f"envdoctor {__version__}", "bold"), (" examined", "")
    width = options.width
    for label, text in header(report.facts):
        yield from _wrap(f"  {label:<11}  ", text, width)
    for outcome in report.failed():
        yield from _failed(outcome, width)
    yield from _undecided(report, options)
    for outcome in report.with_status(Status.CRASHED):
        yield from _crashed(outcome, width)
    if options.verbose:
        yield from _quiet(report, width)
    yield _BLANK
    yield from _closing(report, options)


# --- blocks ------------------------------------------------------------------------------------------------------


def _failed(outcome: Outcome, width: int) -> Iterator[Line]:
    rule = outcome.rule
    label = f"{rule.severity.name.lower()}[{rule.code}]: "
    for finding in outcome.findings:
        yield _BLANK
        yield from _wrap(label, finding.message, width, hang=2, style=_STYLES[rule.severity], text_style="bold")
        yield from _proof(finding.evidence, width)
        yield _BLANK
        yield from _way_out(finding, width)
    yield from _wrap("  more: ", f"envdoctor explain {rule.code}", width, style="cyan")


def _proof(evidence: Iterable[Evidence], width: int) -> Iterator[Line]:
    for item in evidence:
        yield from _wrap("  = ", f"{item.source}: {item.value}", width, hang=6, style="blue")


def _way_out(finding: Finding, width: int) -> Iterator[Line]:
    remedy = finding.remedy or Remedy(summary="none is known")
    admin = " (needs an administrator of this host)" if remedy.needs_admin else ""
    yield from _wrap(_FIX, remedy.summary + admin, width, style="green")
    for command in remedy.commands:
        # A command is never wrapped: it must survive being pasted.
        yield (" " * len(_FIX), ""), (printable(command), "bold")


def _undecided(report: Report, options: RenderOptions) -> Iterator[Line]:
    """Rules that could not tell, gathered by reason: one mute driver silences many of them."""
    label = "  = left open: "
    for reason, outcomes in _by_reason(report.undecided()).items():
        yield _BLANK
        yield from _wrap("unknown: ", reason, options.width, hang=2, style="bold magenta", text_style="bold")
        if options.verbose or len(outcomes) <= _NAMED_APART:
            yield from _rules(label, outcomes)
        else:
            codes = ", ".join(outcome.rule.code for outcome in outcomes)
            yield from _wrap(label, f"{len(outcomes)} rules: {codes}", options.width, hang=6, style="blue")


def _crashed(outcome: Outcome, width: int) -> Iterator[Line]:
    yield _BLANK
    message = f"this rule has a bug, please report it: {'; '.join(outcome.reasons)}"
    yield from _wrap(f"crashed[{outcome.rule.code}]: ", message, width, hang=2, style="bold magenta")
    yield from _rules("  = left open: ", (outcome,))


def _quiet(report: Report, width: int) -> Iterator[Line]:
    if passed := report.with_status(Status.PASSED):
        yield _BLANK
        yield (("passed", "bold green"),)
        yield from _rules("  = ", passed)
    for reason, outcomes in _by_reason(report.with_status(Status.SKIPPED)).items():
        yield _BLANK
        yield from _wrap("skipped: ", reason, width, hang=2, style="bold")
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
            yield from _wrap(f"GPU {card.gpu.index} {card.gpu.name}: ", card.text, width, hang=2)
    if cards and (reason := why_nothing_was_judged(report)):
        yield from _wrap("not judged: ", reason, width, hang=2)
    hint = "" if options.verbose else " (--verbose shows them)"
    yield from _wrap("rules: ", rule_counts(report) + hint, width)
    yield from _wrap("summary: ", summary(report), width, hang=2, style="bold", text_style="bold")


# --- lines -------------------------------------------------------------------------------------------------------


def _wrap(
    label: str, text: str, width: int, *, hang: int | None = None, style: str = "", text_style: str = ""
) -> Iterator[Line]:
    """Wrap *text* after *label*; words longer than a line (paths) stay whole."""
    label = printable(label)
    lines = textwrap.wrap(
        printable(text),
        width,
        initial_indent=" " * len(label),
        subsequent_indent=" " * (len(label) if hang is None else hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    first, *others = lines or [""]
    yield (label, style), (first[len(label) :], text_style)
    for line in others:
        yield ((line, text_style),)


def _paint(lines: Iterable[Line]) -> str:
    import io

    from rich.console import Console
    from rich.text import Text

    page = io.StringIO()
    console = Console(file=page, force_terminal=True, color_system="standard", no_color=False, markup=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True, highlight=False)
    return page.getvalue()
