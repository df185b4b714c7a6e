"""``envdoctor collect``: facts for a bug report, or to be judged elsewhere."""

import click

from envdoctor import api
from envdoctor.cli import options
from envdoctor.errors import ExitCode
from envdoctor.model.facts_file import dump_facts
from envdoctor.probes import Plan
from envdoctor.probes.redaction import find_identity, redact


@click.command()
@options.plan
@click.option(
    "--redact/--no-redact",
    "is_redacted",
    default=True,
    show_default=True,
    help="Leave out home directory, user name and host name.",
)
@options.output
@options.configuration
def command(*, plan: Plan, is_redacted: bool, output: str) -> int:
    """Write down the facts as JSON, unjudged.

    `envdoctor check --facts FILE` judges them, on any machine: for the cards that are named here with --gpu, else for
    those of this machine.
    """
    facts = api.find_facts(plan)
    options.write(dump_facts(redact(facts, find_identity()) if is_redacted else facts), output)
    return ExitCode.OK
