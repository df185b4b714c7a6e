"""``envdoctor check``: the doctor."""

from typing import TextIO

import click

from envdoctor import api
from envdoctor.cli import options
from envdoctor.errors import ExitCode
from envdoctor.model.finding import Report, Severity, Status
from envdoctor.probes import Plan

_NEVER = "never"
_SEVERITIES = [severity.name.lower() for severity in reversed(Severity)]


@click.command()
@options.plan
@options.selection
@click.option(
    "--facts", type=click.File(encoding="utf-8"), metavar="FILE", help="Judge what `collect` wrote; - is stdin."
)
@click.option(
    "--fail-on",
    type=click.Choice([*_SEVERITIES, _NEVER]),
    default="error",
    show_default=True,
    help="Exit with 1 when a finding is this bad.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 when something could not be told.")
@options.destination
@options.configuration
def command(
    *,
    plan: Plan,
    selection: api.Selection,
    facts: TextIO | None,
    fail_on: str,
    strict: bool,
    destination: options.Destination,
) -> int:
    """Say what breaks this environment on its GPUs.

    Every finding comes with its proof and the way out. Examined is the environment of --python or --prefix, else that
    of VIRTUAL_ENV, of CONDA_PREFIX, or of the `python` on PATH; for the cards of --gpu, else for those of this machine.

    Exit codes: 0 nothing as bad as --fail-on, 1 findings, 2 wrong usage, 3 could not tell, 130 interrupted.
    """
    report = api.examine(plan, selection) if facts is None else _judge(facts, selection)
    destination.write(report)
    return exit_code(report, fail_on=fail_on, strict=strict)


def _judge(facts: TextIO, selection: api.Selection) -> Report:
    if given := [name for name in options.PLAN_OPTIONS if options.was_given(name)]:
        raise click.UsageError(
            f"--facts are judged as they were collected: --{given[0]} has no say in them, "
            "give it to `envdoctor collect`"
        )
    return api.judge(api.read_facts(facts), selection)


def exit_code(report: Report, *, fail_on: str, strict: bool) -> ExitCode:
    """Turn a report into what the process tells its caller; the first line of the table that holds decides."""
    if fail_on != _NEVER and any(report.failed(at_least=Severity[fail_on.upper()])):
        return ExitCode.FINDINGS
    if report.with_status(Status.CRASHED) or (strict and report.undecided()):
        return ExitCode.COULD_NOT_TELL
    return ExitCode.OK
