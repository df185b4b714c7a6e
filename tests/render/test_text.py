"""What the format for people promises: whole commands, whole paths, nothing that acts on a terminal."""

import re

import pytest

from envdoctor.model.facts import Facts
from envdoctor.model.finding import Evidence, Finding, Outcome, Remedy, Report, Severity, Status
from envdoctor.render import RenderOptions
from envdoctor.render.text import render
from tests.render.reports import ERROR, EVERYTHING, EXTENSION, NO_DEVICE_CODE, REPORTS, a_rule, failed

ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def report_on(finding: Finding) -> Report:
    return Report(facts=Facts(), outcomes=(failed(NO_DEVICE_CODE, finding),))


@pytest.mark.parametrize("width", [1, 40, 80, 120])
def test_a_command_stays_on_one_line(width: int) -> None:
    assert ERROR.remedy is not None
    [command] = ERROR.remedy.commands

    assert f"\n       {command}\n" in render(EVERYTHING, RenderOptions(width=width))


@pytest.mark.parametrize("width", [1, 40, 80, 120])
def test_a_path_is_not_broken(width: int) -> None:
    assert EXTENSION in render(EVERYTHING, RenderOptions(width=width))


@pytest.mark.parametrize("name", REPORTS)
def test_no_line_that_could_be_shorter_is_longer_than_the_screen(name: str) -> None:
    lines = render(REPORTS[name], RenderOptions(width=80, verbose=True)).splitlines()
    breakable = [line for line in lines if " -m pip " not in line and EXTENSION not in line]

    assert max(map(len, breakable)) <= 80


def test_colour_adds_escape_sequences_and_nothing_else() -> None:
    coloured = render(EVERYTHING, RenderOptions(color=True))

    assert ESCAPE.sub("", coloured) == render(EVERYTHING, RenderOptions())
    assert coloured != render(EVERYTHING, RenderOptions())


def test_text_that_looks_like_markup_is_printed_as_it_is() -> None:
    finding = Finding(message="[bold]x[/bold] :smile:", evidence=(Evidence(source="[red]", value="[/]"),))

    for color in (False, True):
        text = ESCAPE.sub("", render(report_on(finding), RenderOptions(color=color)))
        assert "[bold]x[/bold] :smile:" in text
        assert "= [red]: [/]" in text


def test_what_acts_on_a_terminal_or_cannot_be_encoded_is_escaped() -> None:
    evil = "a\x1b[2Jb\udce9\r\nc"
    finding = Finding(
        message=evil,
        evidence=(Evidence(source=evil, value=evil),),
        remedy=Remedy(summary=evil, commands=(f"echo {evil}",)),
    )
    text = render(report_on(finding), RenderOptions())

    assert text.isascii()
    assert "\x1b" not in text
    assert r"echo a\x1b[2Jb\udce9\r\nc" in text


def test_unknown_and_crashed_rules_are_shown_without_asking() -> None:
    text = render(EVERYTHING, RenderOptions())

    assert "unknown: libbroken.so: truncated at offset 4096" in text
    assert "crashed[ED906]: this rule has a bug, please report it: ZeroDivisionError" in text


def test_rules_that_share_a_reason_are_shown_together() -> None:
    both = "  = left open: ED904 about-the-machine\n  = left open: ED905 about-the-machine\n"

    assert both in render(EVERYTHING, RenderOptions())


def test_many_rules_that_share_a_reason_take_one_line() -> None:
    rules = [a_rule(f"ED91{number}", Severity.ERROR, "a GPU is odd") for number in range(5)]
    mute = tuple(Outcome(rule=rule, status=Status.UNKNOWN, reasons=("NVML is mute",)) for rule in rules)
    report = Report(facts=Facts(), outcomes=mute)

    assert "  = left open: 5 rules: ED910, ED911, ED912, ED913, ED914\n" in render(report, RenderOptions())
    assert "  = left open: ED914 about-the-machine\n" in render(report, RenderOptions(verbose=True))


def test_a_finding_without_way_out_says_so() -> None:
    assert "fix: none is known" in render(EVERYTHING, RenderOptions())


def test_commands_that_mend_several_findings_are_written_once() -> None:
    remedy = Remedy(summary="take /a off LD_LIBRARY_PATH", commands=("unset LD_LIBRARY_PATH",))
    proof = (Evidence(source="LD_LIBRARY_PATH", value="/a"),)
    findings = (Finding(message=f"{name} is broken", evidence=proof, remedy=remedy) for name in ("numpy", "torch"))
    text = render(Report(facts=Facts(), outcomes=(failed(NO_DEVICE_CODE, *findings),)), RenderOptions())

    assert "  fix: take /a off LD_LIBRARY_PATH\n" in text
    assert "  fix: as above: take /a off LD_LIBRARY_PATH\n" in text
    assert text.count("unset LD_LIBRARY_PATH") == 1
