"""Options from `envdoctor.toml` and `pyproject.toml`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envdoctor.cli import cli
from envdoctor.errors import ConfigurationError, ExitCode
from envdoctor.model.facts_file import dump_facts
from tests.builders import healthy_facts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*args: str) -> Result:
    facts = dump_facts(healthy_facts())
    return CliRunner().invoke(cli, ["check", "--facts", "-", *args], input=facts, standalone_mode=False)


def unselected(result: Result) -> bool:
    return any(outcome["reasons"] == ["not selected"] for outcome in json.loads(result.stdout)["outcomes"])


def test_pyproject_supplies_defaults(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.envdoctor]\nformat = "json"\nselect = ["ED102"]\n')

    assert unselected(check())


def test_envdoctor_toml_wins_over_pyproject(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.envdoctor]\nformat = "markdown"\n')
    (folder / "envdoctor.toml").write_text('format = "json"\n')

    assert not unselected(check())


def test_a_pyproject_without_our_table_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "envdoctor.toml").write_text('format = "json"\n')
    (folder / "inner").mkdir()
    (folder / "inner" / "pyproject.toml").write_text("[tool.black]\n")
    monkeypatch.chdir(folder / "inner")

    assert not unselected(check())


def test_the_nearest_folder_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "envdoctor.toml").write_text('format = "markdown"\n')
    (folder / "inner").mkdir()
    (folder / "inner" / "pyproject.toml").write_text('[tool.envdoctor]\nformat = "json"\n')
    monkeypatch.chdir(folder / "inner")

    assert not unselected(check())


def test_the_command_line_wins_over_the_configuration(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text('format = "markdown"\nselect = ["ED102"]\nverbose = true\n')

    assert check("--format", "text").stdout.startswith("envdoctor ")


def test_a_file_can_be_named(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text('format = "markdown"\n')
    (folder / "other.toml").write_text('format = "json"\n')

    assert not unselected(check("--config", "other.toml"))


def test_an_empty_file_switches_configuration_off(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text("nonsense = 1\n")

    assert check("--config", "/dev/null").exception is None


def test_help_is_given_whatever_the_configuration_holds(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text("nonsense = 1\n")

    assert CliRunner().invoke(cli, ["check", "--help"]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selekt = []", "unknown key `selekt`; known are color, deep, driver"),
        ("facts = 'x'", "unknown key `facts`"),
        ("is_redacted = false", "unknown key `is_redacted`"),
        ("select = 'ED102'", "select: not a list of strings: 'ED102'"),
        ("gpu = [4090]", "gpu: not a list of strings: [4090]"),
        ("strict = 'yes'", "strict: not true or false: 'yes'"),
        ("driver = 550", "driver: not a string: 550"),
        ("driver = 'new'", "driver: not a driver release: 'new'"),
        ("fail-on = 'sometimes'", "fail-on: 'sometimes' is not one of"),
        ("format = ", "Invalid value"),
        ("format = '\\ud800'", "envdoctor.toml: "),
    ],
)
def test_a_wrong_configuration_is_named_with_its_file_and_key(text: str, message: str, folder: Path) -> None:
    (folder / "envdoctor.toml").write_text(text)
    result = check()

    assert isinstance(result.exception, ConfigurationError)
    assert result.exception.exit_code is ExitCode.USAGE
    assert str(result.exception).startswith(f"{folder / 'envdoctor.toml'}: ")
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "text", ["[tool]\nenvdoctor = 3", "[tool.envdoctor]\nx = 1", "[tool.envdoctor]\nstrict = true\n[tool"]
)
def test_a_wrong_table_of_pyproject_is_named(text: str, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(text)

    assert str(check().exception).startswith(f"{folder / 'pyproject.toml'}: ")


def test_a_pyproject_whose_tool_is_no_table_has_nothing_for_us(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("tool = 3")

    assert check().exception is None


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 10_000, "x = " + "{a = " * 10_000, "a" + ".a" * 10_000 + " = 1", "x = " + "1" * 10_000]
)
def test_what_no_parser_takes_is_named(text: str, folder: Path) -> None:
    (folder / "envdoctor.toml").write_text(text)

    assert str(check().exception).startswith(f"{folder / 'envdoctor.toml'}: ")


def test_a_byte_order_mark_is_no_part_of_it(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text("\ufefffail-on = 'never'")

    assert check().exception is None


def test_a_current_folder_that_was_deleted_configures_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()

    assert check().exception is None


def test_a_home_of_nobody_is_a_path_that_does_not_exist(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text('prefix = "~nobody-of-that-name/venv"\n')
    result = CliRunner().invoke(cli, ["check", "--gpu", "4090"], standalone_mode=False)

    assert "~nobody-of-that-name/venv`, which does not exist" in str(result.exception)


@pytest.mark.parametrize("content", [b"[project]\nname = old-repo\n", b"# caf\xe9\n[project]\n", b"\xff\xfe[\0"])
def test_a_broken_pyproject_without_our_table_stops_nobody(content: bytes, folder: Path) -> None:
    (folder / "pyproject.toml").write_bytes(content)

    assert check().exception is None


def test_a_pyproject_with_our_table_must_be_utf_8(folder: Path) -> None:
    (folder / "pyproject.toml").write_bytes(b"# caf\xe9\n[tool.envdoctor]\n")

    assert str(check().exception).startswith(f"{folder / 'pyproject.toml'}: 'utf-8' codec")


def test_a_locked_pyproject_stops_nobody_but_is_told_of(unprivileged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (unprivileged / "pyproject.toml").touch(mode=0o000)
    monkeypatch.chdir(unprivileged)

    result = check()

    assert result.exception is None
    assert "pyproject.toml': passed over\n" in result.stderr


def test_a_file_that_is_named_must_be_right(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[project]\nname = old-repo\n")

    assert isinstance(check("--config", "pyproject.toml").exception, ConfigurationError)


def test_a_configuration_that_may_not_be_read_is_named(folder: Path) -> None:
    (folder / "envdoctor.toml").write_bytes(b"\xff\xfe")

    assert "envdoctor.toml: 'utf-8' codec" in str(check().exception)


def test_a_relative_path_starts_at_the_file_that_holds_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "envdoctor.toml").write_text('prefix = "no-such-venv"\n')
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    result = CliRunner().invoke(cli, ["check", "--gpu", "4090"], standalone_mode=False)

    assert str(folder / "no-such-venv") in str(result.exception)


def test_a_python_version_is_no_path(folder: Path) -> None:
    (folder / "envdoctor.toml").write_text('python = "1.4"\n')
    result = CliRunner().invoke(cli, ["check", "--gpu", "4090"], standalone_mode=False)

    assert str(folder) not in str(result.exception)


@pytest.mark.parametrize(("key", "option"), [("python", "--prefix"), ("prefix", "--python")])
def test_the_environment_of_the_command_line_replaces_the_configured_one(key: str, option: str, folder: Path) -> None:
    (folder / "envdoctor.toml").write_text(f'{key} = "/configured"\n')
    result = CliRunner().invoke(cli, ["check", option, "/given", "--gpu", "4090"], standalone_mode=False)

    assert "/given" in str(result.exception)
    assert "/configured" not in str(result.exception)
