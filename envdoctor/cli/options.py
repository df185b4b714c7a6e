"""Every option that commands share, as a named decorator, and what their values mean."""

import functools
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from envdoctor import render
from envdoctor.cli.configuration import apply_configuration
from envdoctor.errors import ReportError
from envdoctor.model.versions import DriverRelease
from envdoctor.probes import Plan

if TYPE_CHECKING:
    from envdoctor.model.finding import Report

Command = Callable[..., int]

# Longer lines are hard to read, however wide the terminal is.
_WIDEST = 120


# --- what to examine ---------------------------------------------------------------------------------------------


def _check_driver(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        return value and str(DriverRelease.parse(value))
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc


_python = click.option(
    "--python", default="", metavar="PATH|VERSION", help="Examine the environment of this interpreter: a path, or 3.8."
)
_prefix = click.option(
    "--prefix", default="", metavar="DIR", help="Examine this venv, conda environment or bare site-packages."
)
gpu = click.option(
    "--gpu",
    multiple=True,
    metavar="NAME",
    help="Judge for this card, which need not be here: 4090, a6000, sm_86. Repeatable.",
)
_driver = click.option(
    "--driver", default="", metavar="RELEASE", callback=_check_driver, help="Driver of the named cards: 535.161.07."
)
deep = click.option("--deep", is_flag=True, help="Also look for device code outside the usual sections (slow).")

PLAN_OPTIONS = ("python", "prefix", "gpu", "driver", "deep")


def plan(command: Command) -> Command:
    """Add the options that say what to examine; the command gets them as one `plan`."""

    @_python
    @_prefix
    @gpu
    @_driver
    @deep
    @functools.wraps(command)
    def with_plan(*, python: str, prefix: str, gpu: tuple[str, ...], driver: str, deep: bool, **values: Any) -> int:
        python, prefix = _choose_environment(python, prefix)
        if driver and not gpu:
            raise click.UsageError("--driver belongs to cards that are named with --gpu")
        examined = Plan(python=python, prefix=prefix, gpus=gpu, driver=driver, deep=deep)
        return command(plan=examined, **values)

    return with_plan


def _choose_environment(python: str, prefix: str) -> tuple[str, str]:
    if not (python and prefix):
        return python, prefix
    if not was_given("python"):
        return "", prefix
    if not was_given("prefix"):
        return python, ""
    raise click.UsageError("--python and --prefix name two environments: give one")


def was_given(parameter: str) -> bool:
    """Tell whether the value of a parameter comes from the command line, not from a configuration or a default."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


# --- which rules -------------------------------------------------------------------------------------------------


def _split_words(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.replace(",", " ").split())


_select = click.option(
    "--select",
    multiple=True,
    metavar="RULES",
    callback=_split_words,
    help="Run only these rules: codes, beginnings of codes (ED2) or names, separated by commas.",
)
_ignore = click.option(
    "--ignore", multiple=True, metavar="RULES", callback=_split_words, help="Leave these rules out, named as above."
)


def selection(command: Command) -> Command:
    """Add the options that choose rules; the command gets them as one `selection`."""

    @_select
    @_ignore
    @functools.wraps(command)
    def with_selection(*, select: tuple[str, ...], ignore: tuple[str, ...], **values: Any) -> int:
        from envdoctor.api import Selection

        return command(selection=Selection(select=select, ignore=ignore), **values)

    return with_selection


# --- where the report goes ---------------------------------------------------------------------------------------


_STANDARD_OUTPUT = "-"

output = click.option(
    "--output", default=_STANDARD_OUTPUT, metavar="FILE", help="Write to this file instead of standard output."
)
color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour: on a terminal, unless NO_COLOR or FORCE_COLOR says otherwise.",
)
verbose = click.option("--verbose", "-v", is_flag=True, help="Also show what passed or was skipped, and why.")
_format = click.option(
    "--format",
    "format_",
    type=click.Choice(render.formats()),
    default="text",
    show_default=True,
    help="text for people, json for programs, markdown for issues.",
)


text_or_json = click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text for people, json for programs.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a report goes, and in which shape."""

    file: str
    format: str
    options: render.RenderOptions

    def write(self, report: "Report") -> None:
        """Render and write *report*."""
        write(render.get(self.format).render(report, self.options), self.file)


def destination(command: Command) -> Command:
    """Add the options that say where a report goes; the command gets them as one `destination`."""

    @_format
    @output
    @color
    @verbose
    @functools.wraps(command)
    def with_destination(*, format_: str, output: str, color: str, verbose: bool, **values: Any) -> int:
        width = text_width(output)
        options = render.RenderOptions(color=wants_color(output, color), width=width, verbose=verbose)
        return command(destination=Destination(file=output, format=format_, options=options), **values)

    return with_destination


def text_width(output: str) -> int:
    """Return how long the lines of a text for people should be."""
    usual = render.RenderOptions().width
    if not _is_terminal(output):
        return usual
    # A terminal that nobody gave a size has none to Python 3.10.
    return min(shutil.get_terminal_size().columns or usual, _WIDEST)


def wants_color(output: str, choice: str) -> bool:
    """Tell whether to colour (https://no-color.org, https://force-color.org)."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (_is_terminal(output) and os.environ.get("TERM") != "dumb")


def _is_terminal(output: str) -> bool:
    return output == _STANDARD_OUTPUT and sys.stdout is not None and sys.stdout.isatty()


def write(text: str, output: str) -> None:
    """Write a report and see that it arrives.

    Raises:
        ReportError: it does not, e.g. because the disk is full.

    """
    if output == _STANDARD_OUTPUT and sys.stdout is None:  # `>&-`
        raise ReportError("cannot write the report: standard output is closed")
    encoding = None if output == _STANDARD_OUTPUT else "utf-8"
    try:
        with click.open_file(output, "w", encoding=encoding, errors="backslashreplace") as file:
            file.write(text)
            file.flush()
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted, and the exit code still tells the verdict.
        _discard_standard_output()
    except OSError as exc:
        if output == _STANDARD_OUTPUT:
            _discard_standard_output()
        raise ReportError(f"cannot write the report: {exc}") from exc


def _discard_standard_output() -> None:
    # Python flushes standard output once more when it ends, and would replace our exit code by 120.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- defaults from files -----------------------------------------------------------------------------------------


configuration = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=apply_configuration,
    help="Read defaults from this file, not from the nearest envdoctor.toml or pyproject.toml.",
)
