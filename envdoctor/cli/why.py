"""``envdoctor why``: the whole story of one library."""

import click

from envdoctor import api
from envdoctor.cli import options
from envdoctor.errors import ExitCode
from envdoctor.probes import Plan
from envdoctor.render import RenderOptions, _why


@click.command()
@click.argument("library", metavar="LIBRARY|MODULE")
@options.plan
@options.text_or_json
@options.output
@options.color
@options.verbose
@options.configuration
def command(*, library: str, plan: Plan, format_: str, output: str, color: str, verbose: bool) -> int:
    """Tell the whole story of one library.

    Where each library comes from that it needs, and why that file; what the dynamic loader will say to it; which
    symbols it lacks, and who would have them; the device code inside; which distribution owns it.

    LIBRARY is a path, or a name in the environment: libcublasLt.so.12, torchvision._C, cv2, torch. Of several files the
    one is told of that is refused, or else that is loaded first; the others are named.

    Exit codes: 0 told, 2 wrong usage or an unknown name, 3 could not tell, 130 interrupted.
    """
    explanation = api.explain_library(plan, library)
    if format_ == "json":
        options.write(_why.render_json(explanation), output)
    else:
        width = options.text_width(output)
        shape = RenderOptions(color=options.wants_color(output, color), width=width, verbose=verbose)
        options.write(_why.render_text(explanation, shape), output)
    return ExitCode.OK
