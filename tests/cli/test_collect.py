"""`envdoctor collect`: what it writes can be judged anywhere, and names nobody."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envdoctor.cli import cli
from envdoctor.model.facts_file import load_facts


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, [*args, "--config", "/dev/null"], standalone_mode=False)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment below the home directory of somebody called alice."""
    folder = tmp_path_factory.mktemp("machine") / "people" / "alice" / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def collected(venv: Path) -> str:
    result = run("collect", "--prefix", str(venv), "--gpu", "4090", "--driver", "535.161.07", "--no-redact")
    assert result.return_value == 0
    return result.stdout


def test_collected_facts_are_judged_like_the_machine_itself(collected: str, venv: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(collected)
    there = run("check", "--prefix", str(venv), "--gpu", "4090", "--driver", "535.161.07", "--format", "json")
    here = run("check", "--facts", str(tmp_path / "facts.json"), "--format", "json")

    assert json.loads(here.stdout) == json.loads(there.stdout)


def test_the_facts_are_those_of_the_environment(collected: str, venv: Path) -> None:
    facts = load_facts(collected)

    assert json.loads(collected)["facts"]["environment"]["prefix"] == str(venv)
    assert facts.driver != facts.nvml


def test_the_facts_go_to_a_file(venv: Path, tmp_path: Path) -> None:
    result = run("collect", "--prefix", str(venv), "--gpu", "a6000", "--output", str(tmp_path / "facts.json"))

    assert result.stdout == ""
    assert load_facts((tmp_path / "facts.json").read_text()) is not None


def test_nobody_is_named(venv: Path) -> None:
    variables = {"HOME": str(venv.parent), "LOGNAME": "alice", "USER": "alice"}
    command = [sys.executable, "-m", "envdoctor", "collect", "--prefix", str(venv), "--gpu", "4090"]
    text = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True, timeout=60
    ).stdout

    assert "alice" not in text
    assert json.loads(text)["facts"]["environment"]["prefix"] == "~/env"


def test_an_environment_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["collect", "--prefix", str(tmp_path / "none")])

    assert str(tmp_path / "none") in str(result.exception)
