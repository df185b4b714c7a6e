"""What is documented: every command, every option, every rule."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from envdoctor.cli import cli
from envdoctor.rules import load_rules
from tools.make_docs import pages

ROOT = Path(__file__).parents[2]
COMMANDS = cli.list_commands(click.Context(cli))


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])

    assert result.exit_code == 0
    assert command(name).help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is_for(name: str) -> None:
    options = [param for param in command(name).params if isinstance(param, click.Option)]

    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"envdoctor {name}" in (ROOT / "README.md").read_text("utf-8")


def test_the_pages_of_the_rules_are_fresh() -> None:
    written = {file.name: file.read_text("utf-8") for file in (ROOT / "docs" / "rules").glob("*.md")}

    assert written == pages(), "run `make docs`"


def test_the_index_lists_every_rule() -> None:
    index = pages()["index.md"]

    assert [rule.code for rule in load_rules() if f"[{rule.code}]({rule.code}.md)" not in index] == []
