"""`envdoctor check` on collected facts: what is judged, how it is written, and what is refused."""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envdoctor.cli import cli
from envdoctor.errors import EnvdoctorError
from envdoctor.model.facts import Facts, NvmlCode
from envdoctor.model.facts_file import dump_facts
from tests.builders import an_environment, an_nvml_session, healthy_facts

SICK = healthy_facts(nvml=an_nvml_session(init=NvmlCode(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH")))


def check(*args: str, facts: Facts = SICK) -> Result:
    return CliRunner().invoke(cli, ["check", "--facts", "-", *args], input=dump_facts(facts), standalone_mode=False)


def codes(result: Result) -> list[str]:
    return [finding["code"] for finding in json.loads(result.stdout)["findings"]]


def statuses(result: Result) -> dict[str, str]:
    return {outcome["code"]: outcome["status"] for outcome in json.loads(result.stdout)["outcomes"]}


def test_collected_facts_are_judged() -> None:
    result = check()

    assert result.return_value == 1
    assert "error[ED102]: " in result.stdout


def test_facts_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(dump_facts(SICK))
    result = CliRunner().invoke(cli, ["check", "--facts", str(tmp_path / "facts.json")], standalone_mode=False)

    assert "error[ED102]: " in result.stdout


@pytest.mark.parametrize(
    ("args", "selected"),
    [
        (["--select", "ED102"], {"ED102"}),
        (["--select", "ed102,forward-compatibility-on-geforce", "--select", "ED104"], {"ED102", "ED103", "ED104"}),
        (
            ["--select", "ED10", "--ignore", "ED101 ED105,ED106,ED107", "--ignore", "ED108,ED109"],
            {"ED102", "ED103", "ED104"},
        ),
    ],
)
def test_rules_are_selected_by_code_beginning_and_name(args: list[str], selected: set[str]) -> None:
    outcomes = json.loads(check("--format", "json", *args).stdout)["outcomes"]

    assert {outcome["code"] for outcome in outcomes if outcome["reasons"] != ["not selected"]} == selected


def test_an_ignored_rule_does_not_fail_the_check() -> None:
    result = check("--ignore", "ED102", "--format", "json")

    assert result.return_value == 0
    assert statuses(result)["ED102"] == "skipped"


def test_a_rule_that_does_not_exist_is_refused_with_the_nearest() -> None:
    result = check("--ignore", "mismatched-driver-library")

    assert isinstance(result.exception, EnvdoctorError)
    assert "nearest: mismatched-driver-libraries" in str(result.exception)


def test_the_report_goes_to_a_file(tmp_path: Path) -> None:
    result = check("--output", str(tmp_path / "report.txt"))

    assert result.stdout == ""
    assert "error[ED102]: " in (tmp_path / "report.txt").read_text()


def test_a_path_that_is_not_text_is_printed_whatever_the_encoding(tmp_path: Path) -> None:
    odd = healthy_facts(environment=an_environment(prefix="/opt/\udce9nv"))
    for format_ in ("text", "json", "markdown"):
        file = tmp_path / format_
        result = check("--format", format_, "--output", str(file), facts=odd)

        assert result.exception is None
        assert "\\udce9nv" in file.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "<stdin>: not JSON"),
        (b"\xff\xfe", "<stdin>: 'utf-8' codec"),
        (b'{"schema": 7}', r"<stdin>: $.schema: 7"),
        (b'{"schema": 1, "envdoctor": "0", "facts": {"gpus": [1]}}', "<stdin>: $.facts.gpus[0]: not an object: 1"),
    ],
)
def test_foreign_facts_are_one_clear_error(text: bytes, message: str) -> None:
    result = CliRunner().invoke(cli, ["check", "--facts", "-"], input=io.BytesIO(text), standalone_mode=False)

    assert isinstance(result.exception, EnvdoctorError)
    assert str(result.exception).startswith(message)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--facts", "-", "--gpu", "4090"], "--gpu has no say in them"),
        (["--facts", "-", "--deep"], "--deep has no say in them"),
        (["--facts", "/nowhere.json"], "No such file"),
        (["--driver", "535.161.07"], "--driver belongs to cards that are named with --gpu"),
        (["--driver", "five", "--gpu", "4090"], "not a driver release: 'five'"),
        (["--python", "3.8", "--prefix", "/opt/env"], "--python and --prefix name two environments"),
        (["--fail-on", "sometimes"], "'sometimes' is not one of"),
    ],
)
def test_contradictory_options_are_wrong_usage(args: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["check", *args])

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
