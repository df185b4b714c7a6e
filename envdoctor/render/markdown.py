"""The format for issues and job logs: GitHub's Markdown."""

import re
from collections.abc import Iterator

from envdoctor import __version__
from envdoctor.model.finding import Finding, Outcome, Report, Status
from envdoctor.render import RenderOptions, printable
from envdoctor.render._summary import header, rule_counts, summary, verdicts

# What GitHub reads as markup in running text; an underscore inside a word is none.
_MARKUP = re.compile(r"[\\<>|*\[\]]|(?<!\w)_|_(?!\w)")


def render(report: Report, options: RenderOptions) -> str:
    """Write *report* as Markdown."""
    return "\n".join(_lines(report, options)) + "\n"


def _lines(report: Report, options: RenderOptions) -> Iterator[str]:
    yield f"## envdoctor {__version__}: {_escape(summary(report))}"
    yield ""
    yield "| examined | |"
    yield "|---|---|"
    yield from (f"| {label} | {_cell(text)} |" for label, text in header(report.facts))
    yield from (f"| verdict on GPU {card.gpu.index} | {_cell(card.text)} |" for card in verdicts(report))
    yield f"| rules | {rule_counts(report)} |"
    for outcome in report.failed():
        for finding in outcome.findings:
            yield from _finding(outcome, finding)
    yield from _list("Not judged", (*report.undecided(), *report.with_status(Status.CRASHED)))
    if options.verbose:
        yield from _list("Skipped", report.with_status(Status.SKIPPED))
        yield from _list("Passed", report.with_status(Status.PASSED))


def _finding(outcome: Outcome, finding: Finding) -> Iterator[str]:
    rule = outcome.rule
    yield ""
    yield f"### {rule.severity.name.lower()} {rule.code}: {_escape(finding.message)}"
    yield ""
    yield from (f"- {_escape(item.source)}: {_code(item.value)}" for item in finding.evidence)
    yield ""
    if finding.remedy is None:
        yield "**Fix:** none is known."
        return
    admin = " *(needs an administrator of this host)*" if finding.remedy.needs_admin else ""
    yield f"**Fix:** {_escape(finding.remedy.summary)}{admin}"
    if finding.remedy.commands:
        yield ""
        yield "```sh"
        yield from map(printable, finding.remedy.commands)
        yield "```"


def _list(heading: str, outcomes: tuple[Outcome, ...]) -> Iterator[str]:
    if not outcomes:
        return
    yield ""
    yield f"### {heading}"
    yield ""
    for outcome in outcomes:
        rule = outcome.rule
        reasons = "".join(f"; {_escape(reason)}" for reason in outcome.reasons)
        yield f"- {rule.code} {rule.name} ({outcome.status.value}){reasons}"


def _escape(text: str) -> str:
    """Keep text of foreign files from being read as markup; the code spans of our messages stay."""
    parts = re.split(r"(`[^`]*`)", printable(" ".join(text.split())))
    return "".join(part if part.startswith("`") else _MARKUP.sub(r"\\\g<0>", part) for part in parts)


def _cell(text: str) -> str:
    """Write text into a table, where a bar ends a cell even inside a code span (GitHub's Markdown, "Tables")."""
    return re.sub(r"(?<!\\)\|", r"\\|", _escape(text))


def _code(text: str) -> str:
    """Write text as a code span: the fence is longer than any run of backticks inside (CommonMark, "Code spans")."""
    text = printable(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
