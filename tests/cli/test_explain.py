"""`envdoctor explain`: from a code, a name or an error message to the page."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from envdoctor.cli import cli
from envdoctor.errors import UnknownRuleError
from envdoctor.rules import find_rules

PAGE = find_rules("ED102")[0].page


def explain(*args: str) -> Result:
    return CliRunner().invoke(cli, ["explain", *args], standalone_mode=False)


@pytest.mark.parametrize("what", ["ED102", "ed102", "mismatched-driver-libraries", "Mismatched-Driver-Libraries"])
def test_a_code_or_a_name_gives_the_page(what: str) -> None:
    assert explain(what).stdout == PAGE


def test_the_error_message_gives_the_page() -> None:
    result = explain("RuntimeError: Failed to initialize NVML: Driver/library version mismatch")

    assert result.stdout == PAGE


def test_an_error_message_needs_no_quotes() -> None:
    assert explain("driver/library", "version", "mismatch").stdout == PAGE


def test_several_matches_are_listed() -> None:
    listed = explain("ED10").stdout

    assert "- ED102 mismatched-driver-libraries (error): " in listed
    assert "- ED103 forward-compatibility-on-geforce (error): " in listed
    assert "`envdoctor explain ED10" in listed


def test_markdown_is_the_page_as_it_is() -> None:
    assert explain("ED102", "--format", "markdown").stdout == PAGE


def test_json_holds_every_match() -> None:
    rules = json.loads(explain("ED10", "--format", "json").stdout)["rules"]

    assert [rule["code"] for rule in rules][1:3] == ["ED102", "ED103"]
    assert rules[1]["explanation"].startswith("## What it means")


def test_colour_renders_the_markdown() -> None:
    painted = explain("ED102", "--color", "always").stdout

    assert "\x1b[" in painted
    assert "## What it means" not in painted


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("ED1002", "no rule is called `ED1002`; nearest: ED102"),
        ("mismatched-driver", "nearest: mismatched-driver-libraries"),
        ("ED", "no rule is called `ED`; codes go from ED001 to ED"),
        ("zzz", "codes go from ED001 to ED"),
        ("it does not work", "no error message that envdoctor knows is in this text"),
    ],
)
def test_what_is_unknown_is_refused_with_the_nearest(what: str, message: str) -> None:
    result = explain(what)

    assert isinstance(result.exception, UnknownRuleError)
    assert message in str(result.exception)


def test_a_python_that_strips_docstrings_says_so() -> None:
    command = [sys.executable, "-OO", "-m", "envdoctor", "explain", "ED102"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert "This Python strips docstrings" in ended.stdout
