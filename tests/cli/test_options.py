"""When output is coloured, and how wide it is: on a real terminal and off it."""

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.model.facts_file import dump_facts
from tests.builders import healthy_facts

ESCAPE = "\x1b["


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("facts") / "facts.json"
    file.write_text(dump_facts(healthy_facts()))
    return file


def environment(**variables: str) -> dict[str, str]:
    unset = {"NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"}
    return {name: value for name, value in os.environ.items() if name not in unset} | variables


def piped(facts: Path, *args: str, **variables: str) -> str:
    command = [sys.executable, "-m", "envdoctor", "check", "--facts", str(facts), *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env=environment(**variables)
    ).stdout


def on_terminal(facts: Path, *args: str, **variables: str) -> str:
    """Run the program with a pseudo-terminal as its standard output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "envdoctor", "check", "--facts", str(facts), *args]
    with subprocess.Popen(command, stdout=theirs, env=environment(**variables)) as program:
        os.close(theirs)
        screen = b"".join(_read(ours))
    os.close(ours)
    assert program.returncode == 0
    return screen.decode()


def _read(terminal: int) -> Iterator[bytes]:
    # Linux reports the end of a pseudo-terminal as an error (EIO).
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 65536):
            yield chunk


def test_a_pipe_is_not_coloured(facts: Path) -> None:
    assert ESCAPE not in piped(facts, TERM="xterm")


def test_a_terminal_is_coloured(facts: Path) -> None:
    assert ESCAPE in on_terminal(facts, TERM="xterm")


@pytest.mark.parametrize(
    ("args", "variables", "coloured"),
    [
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": ""}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_what_is_said_explicitly_wins(
    args: list[str], variables: dict[str, str], *, coloured: bool, facts: Path
) -> None:
    assert (ESCAPE in piped(facts, *args, **variables)) == coloured


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_a_terminal_that_wants_no_colour_gets_none(variables: dict[str, str], facts: Path) -> None:
    assert ESCAPE not in on_terminal(facts, **variables)


def test_a_terminal_that_wants_no_colour_gets_none_with_an_empty_variable(facts: Path) -> None:
    assert ESCAPE in on_terminal(facts, TERM="xterm", NO_COLOR="")


def test_a_report_in_a_file_is_not_coloured(facts: Path, tmp_path: Path) -> None:
    on_terminal(facts, "--output", str(tmp_path / "report"), TERM="xterm")

    assert ESCAPE not in (tmp_path / "report").read_text()


@pytest.mark.parametrize(("columns", "narrow"), [("40", True), ("500", False)])
def test_lines_follow_the_width_of_the_terminal(columns: str, *, narrow: bool, facts: Path) -> None:
    lines = on_terminal(facts, "--verbose", TERM="dumb", COLUMNS=columns).splitlines()

    assert (max(map(len, lines)) < 80) == narrow
    assert max(map(len, lines)) <= 120
