"""``envdoctor scan``: the device code inside of files."""

import click

from envdoctor.cli import options
from envdoctor.errors import ExitCode
from envdoctor.probes.scan import scan
from envdoctor.render import _scan


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH...")
@options.gpu
@options.deep
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For whom."
)
@options.output
def command(*, paths: tuple[str, ...], gpu: tuple[str, ...], deep: bool, format_: str, output: str) -> int:
    """Show the CUDA device code in libraries, folders of them, wheels, fatbins and cubins.

    For each file: how many kernel containers it holds, for which architectures there is machine code (SASS), and for
    which PTX. With --gpu: how many containers run on that card natively, how many only after the driver compiled
    their PTX, and how many not at all.

    Exit codes: 0 everything was read, 2 wrong usage, 3 a file could not be read, 130 interrupted.
    """
    found = scan(paths, gpu, deep=deep)
    text = _scan.render_json(found) if format_ == "json" else _scan.render_text(found, options.text_width(output))
    options.write(text, output)
    return ExitCode.COULD_NOT_TELL if found.unreadable else ExitCode.OK
