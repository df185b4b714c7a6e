"""The command line: a module `name` in this folder that holds a Click `command` is the command `name`."""

import atexit
import errno
import gc
import importlib
import io
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Sequence
from typing import ParamSpec, TextIO

import click

from envdoctor import __version__
from envdoctor.errors import EnvdoctorError, ExitCode

P = ParamSpec("P")

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_COMMANDS = frozenset({"configuration", "options"})


class _Commands(click.Group):
    """The commands of this folder, each imported when it is called or when its help is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  Click's signature
        names = (info.name for info in pkgutil.iter_modules(__path__))
        return sorted(name for name in names if name not in _NOT_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envdoctor")
def cli() -> None:
    """Say what breaks a PyTorch/CUDA environment on a GPU before the job starts.

    Nothing is imported and nothing runs on the GPU: envdoctor reads files and asks the driver.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Click alone would end an interrupted run, a failed one and a bug with 1, which means "findings" here.
    """
    # One run leaves hardly a circle behind, and looking for circles takes a twentieth of its time.
    gc.disable()
    atexit.register(gc.freeze)  # else Python looks for them once more when it ends
    # As an interruption: children are ended on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.stdin is None:  # `<&-`, which Click does not expect
        sys.stdin = io.StringIO()
    try:
        result = cli.main(args, prog_name="envdoctor", standalone_mode=False)
    except click.ClickException as exc:
        _complain(exc.show)
        return ExitCode.USAGE
    except EnvdoctorError as exc:
        from envdoctor.render import printable

        _complain(click.echo, f"error: {printable(str(exc))}", err=True)
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain(click.echo, "interrupted", err=True)
        # Where it came through an `exec`, as of dataclasses, Python would end by SIGINT instead of with our code; the
        # next `exec` makes it forget that (Python/pythonrun.c, run_eval_code_obj).
        exec("")  # noqa: S102  nothing is executed
        return ExitCode.INTERRUPTED
    except SystemExit:  # so Click ends when nobody reads its help, and so would foreign code
        return ExitCode.COULD_NOT_TELL
    except Exception as exc:  # noqa: BLE001  a bug must not end in Python's exit code 1
        if isinstance(exc, OSError) and exc.errno in _NO_SPACE:  # Click shows help without our care
            _discard(sys.stdout)
            _complain(click.echo, f"error: cannot write: {exc.strerror}", err=True)
            return ExitCode.COULD_NOT_TELL
        import traceback

        _complain(traceback.print_exc)
        request = f"error: this is a bug of envdoctor {__version__}: please report it with the lines above"
        _complain(click.echo, request, err=True)
        return ExitCode.COULD_NOT_TELL
    return result if isinstance(result, int) else ExitCode.OK


def _complain(say: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Say something on standard error; where it cannot be written, as on a full disk, the exit code tells enough."""
    try:
        say(*args, **kwargs)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    # Python flushes it once more when it ends, and would replace our exit code by 120.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
