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
@options.text_or_json
@options.output
def command(*, paths: tuple[str, ...], gpu: tuple[str, ...], deep: bool, format_: str, output: str) -> int:
    """Show the CUDA device code inside files.

    PATH is a library, a wheel, a fatbin, a cubin, or a folder of them. For each file: how many kernel containers it
    holds, for which architectures there is machine code (SASS), and for which PTX, each with the number of containers
    that have it. Stubs are machine code whose kernels only report that they cannot run.

    With --gpu: how many containers run on that card natively, how many only after the driver compiled their PTX (JIT),
    and how many not at all. Containers that are yet to be linked do not count, nor do stubs. "In part" is usual in
    NVIDIA's own libraries: they have containers for one generation each, and cuFFT's are found with --deep only.

    Exit codes: 0 everything was read, 2 wrong usage, 3 a file could not be read, 130 interrupted.
    """
    found = scan(paths, gpu, deep=deep)
    text = _scan.render_json(found) if format_ == "json" else _scan.render_text(found, options.text_width(output))
    options.write(text, output)
    return ExitCode.COULD_NOT_TELL if found.unreadable else ExitCode.OK
