"""The exit codes: one table here, one in `errors.py`, one in the README."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import envdoctor
from envdoctor.cli.check import exit_code
from envdoctor.errors import ExitCode
from envdoctor.model.facts import Facts, NvmlCode
from envdoctor.model.facts_file import dump_facts
from envdoctor.model.finding import Evidence, Finding, Outcome, Report, Severity, Status
from envdoctor.model.rule import Conclusions, rule
from tests.builders import an_nvml_session, healthy_facts
from tests.probes.processes import ends, until

MISMATCH = NvmlCode(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH")


def _nothing() -> Conclusions:
    yield from ()


def failed(severity: Severity, *reasons: str) -> Outcome:
    finding = Finding(message="bad", evidence=(Evidence(source="s", value="v"),))
    failing = rule("ED901", severity, "bad")(_nothing)
    return Outcome(rule=failing, status=Status.FAILED, findings=(finding,), reasons=reasons)


ERROR, WARNING, INFO = failed(Severity.ERROR), failed(Severity.WARNING), failed(Severity.INFO)
PASSED, SKIPPED, UNKNOWN, CRASHED = (
    Outcome(rule=ERROR.rule, status=status, reasons=reasons)
    for status, reasons in (
        (Status.PASSED, ()),
        (Status.SKIPPED, ("no torch",)),
        (Status.UNKNOWN, ("mute",)),
        (Status.CRASHED, ("ValueError",)),
    )
)


@pytest.mark.parametrize(
    ("outcomes", "fail_on", "strict", "code"),
    [
        ((), "error", True, ExitCode.OK),
        ((PASSED, SKIPPED), "info", True, ExitCode.OK),
        ((ERROR,), "error", False, ExitCode.FINDINGS),
        ((WARNING,), "error", False, ExitCode.OK),
        ((WARNING,), "warning", False, ExitCode.FINDINGS),
        ((INFO,), "warning", False, ExitCode.OK),
        ((INFO,), "info", False, ExitCode.FINDINGS),
        ((ERROR,), "never", False, ExitCode.OK),
        ((UNKNOWN,), "error", False, ExitCode.OK),
        ((UNKNOWN,), "error", True, ExitCode.COULD_NOT_TELL),
        ((failed(Severity.INFO, "half of it could not be read"),), "error", True, ExitCode.COULD_NOT_TELL),
        ((CRASHED,), "error", False, ExitCode.COULD_NOT_TELL),
        ((CRASHED,), "never", False, ExitCode.COULD_NOT_TELL),
        # A sick machine is told before a sick doctor.
        ((CRASHED, UNKNOWN, ERROR), "error", True, ExitCode.FINDINGS),
    ],
)
def test_a_report_decides_the_exit_code(
    outcomes: tuple[Outcome, ...], fail_on: str, strict: bool, code: ExitCode
) -> None:
    assert exit_code(Report(facts=Facts(), outcomes=outcomes), fail_on=fail_on, strict=strict) is code


def test_the_readme_holds_the_same_table() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

    assert [code for code in ExitCode if f"| {code.value} |" not in readme] == []


# --- the program as a process ------------------------------------------------------------------------------------

BOOM = """
import click
from envdoctor.errors import EnvdoctorError, UnknownGpuError

@click.command()
@click.argument("what")
def command(what):
    "Fail in every way."
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "interrupt-in-exec":
        exec("raise KeyboardInterrupt")  # dataclasses are made by such calls, and it may come in the midst of one
    if what == "file":
        raise click.FileError("nowhere")
    raise {"bug": ZeroDivisionError, "error": EnvdoctorError, "gpu": UnknownGpuError}[what]("so it goes")
"""


def run(*args: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envdoctor", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)


@pytest.fixture(scope="module")
def folder_with_boom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program with one more command, registered by the presence of its file."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(Path(envdoctor.__file__).parent, folder / "envdoctor")
    (folder / "envdoctor" / "cli" / "boom.py").write_text(BOOM)
    return folder


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("error", 3, "error: so it goes\n"),
        ("gpu", 2, "error: so it goes\n"),
        ("file", 2, "Could not open file"),
        ("interrupt", 130, "interrupted\n"),
        ("interrupt-in-exec", 130, "interrupted\n"),
        ("bug", 3, "please report it"),
    ],
)
def test_a_failure_of_a_command_has_its_code(what: str, code: int, message: str, folder_with_boom: Path) -> None:
    ended = run("boom", what, folder=folder_with_boom)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr
    assert ("Traceback" in ended.stderr) == (what == "bug")


def test_a_file_in_the_folder_of_commands_is_a_command(folder_with_boom: Path) -> None:
    assert "Fail in every way." in run("--help", folder=folder_with_boom).stdout


@pytest.mark.parametrize(
    "args", [("chek",), ("check", "--gpuu", "4090"), ("check", "--format", "xml"), ("explain",), ()]
)
def test_wrong_usage_is_told_on_stderr(args: tuple[str, ...]) -> None:
    ended = run(*args)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Usage: envdoctor" in ended.stderr


@pytest.mark.parametrize("args", [("--version",), ("--help",), ("check", "-h")])
def test_asking_for_help_succeeds(args: tuple[str, ...]) -> None:
    ended = run(*args)

    assert (ended.returncode, ended.stderr) == (0, "")


class WaitingProgram:
    """`envdoctor check` that waits for its facts at the end of a pipe, so that a test knows where it stands."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "facts")
        command = [sys.executable, "-m", "envdoctor", "check", "--facts", str(folder / "facts")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.facts = (folder / "facts").open("w")  # returns when the program has opened its end


def test_an_interrupted_run_ends_with_130(tmp_path: Path) -> None:
    program = WaitingProgram(tmp_path)
    program.process.send_signal(signal.SIGINT)
    program.facts.close()  # a signal that comes just before the read would be noticed after it only
    stdout, stderr = program.process.communicate(timeout=60)

    assert (program.process.returncode, stdout, stderr) == (130, "", "\ninterrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ended_run_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    hanging = tmp_path / "python"
    hanging.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid; sleep 1000\n")
    hanging.chmod(0o755)
    command = [sys.executable, "-m", "envdoctor", "check", "--python", str(hanging), "--gpu", "4090"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert until((tmp_path / "pid").exists)
        program.send_signal(number)
        stdout, stderr = program.communicate(timeout=60)

    assert (program.returncode, stdout, stderr) == (130, "", "\ninterrupted\n")
    assert ends((tmp_path / "pid").read_text().strip())


def test_help_that_nobody_reads_is_no_finding() -> None:
    command = [sys.executable, "-m", "envdoctor", "check", "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (3, "")


@pytest.mark.parametrize("module", ["click", "envdoctor/x", "packaging", "platform", "tomli", "torch"])
def test_the_modules_of_the_current_folder_are_not_imported(module: str, tmp_path: Path) -> None:
    (tmp_path / "envdoctor.toml").write_text("strict = false")  # so that tomli is wanted
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / f"{module}.py").write_text("raise SystemExit('executed')")

    ended = run("check", "--gpu", "4090", folder=tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("start", [["envdoctor"], ["python", "-I", "-m", "envdoctor"]])
def test_the_standard_library_of_the_current_folder_is_not_imported(start: list[str], tmp_path: Path) -> None:
    """`python -m` imports importlib and runpy before our code runs: the README says how to start in foreign folders."""
    program = Path(sys.executable).with_name(start[0])
    if not program.exists():
        pytest.skip(f"{program} is not installed")
    for module in ("importlib", "json", "os", "runpy"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('executed')")

    ended = subprocess.run(
        [program, *start[1:], "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("args", [("check", "--gpu", "4090"), ("collect",), ("scan", __file__), ("explain", "ED201")])
def test_a_closed_standard_output_is_an_error(args: tuple[str, ...]) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "envdoctor", *args]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (3, "error: cannot write the report: standard output is closed\n")


def test_a_report_in_a_file_needs_no_standard_output(tmp_path: Path) -> None:
    written = ["explain", "ED201", "--output", str(tmp_path / "page")]
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "envdoctor", *written]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "page").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("what", "code"),
    [("error", 3), ("gpu", 2), ("file", 2), ("bug", 3)],
)
def test_a_failure_has_its_code_when_nothing_can_be_written(what: str, code: int, folder_with_boom: Path) -> None:
    command = [sys.executable, "-m", "envdoctor", "boom", what]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=full, check=False, cwd=folder_with_boom)

    assert ended.returncode == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("args", [("--help",), ("--version",), ("check", "--help"), ("explain", "ED201"), ("collect",)])
def test_a_full_standard_output_is_an_error(args: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "envdoctor", *args]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert ended.returncode == 3
    assert re.fullmatch(r"error: cannot write.*No space left on device\n", ended.stderr)


def test_a_closed_standard_input_holds_no_facts() -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "envdoctor", "check", "--facts", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (3, "")
    assert "not JSON" in ended.stderr


def test_facts_that_cannot_be_read_are_an_error() -> None:
    ended = run("check", "--facts", "/proc/self/mem")

    assert (ended.returncode, ended.stderr) == (3, "error: /proc/self/mem: [Errno 5] Input/output error\n")


def test_an_error_cannot_act_on_the_terminal() -> None:
    assert (
        run("check", "--prefix", "/\x1b[31m\n/").stderr
        == r"error: --prefix names `/\x1b[31m\n/`, which does not exist" + "\n"
    )


def test_a_reader_that_went_away_does_not_change_the_verdict(tmp_path: Path) -> None:
    program = WaitingProgram(tmp_path)
    assert program.process.stdout is not None
    assert program.process.stderr is not None
    program.process.stdout.close()
    with program.facts:
        program.facts.write(dump_facts(healthy_facts(nvml=an_nvml_session(init=MISMATCH))))
    stderr = program.process.stderr.read()
    program.process.stderr.close()

    assert (program.process.wait(timeout=60), stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(dump_facts(healthy_facts()))
    command = [sys.executable, "-m", "envdoctor", "check", "--facts", str(facts)]
    with Path("/dev/full").open("w") as full:
        to_stdout = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    to_file = run("check", "--facts", str(facts), "--output", "/dev/full")

    for ended in (to_stdout, to_file):
        assert ended.returncode == 3
        assert ended.stderr.startswith("error: cannot write the report: ")
        assert "Traceback" not in ended.stderr
