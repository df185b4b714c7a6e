"""`envdoctor check` on a whole environment against its peers and against `torch.utils.collect_env`, in one run.

    python -m benchmarks.check PREFIX [--peer 'NAME=COMMAND' ...] [--runs 7] [--cold]

PREFIX is an environment with a CUDA torch. A peer is any command; ``{python}`` in it becomes the interpreter of PREFIX.
`--cold` also drops the page cache before each run of `envdoctor check` (needs root).
"""

import argparse
import compileall
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import envdoctor
from benchmarks.timing import measure, report, run_once


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()

    # Users have bytecode; a checkout run with PYTHONDONTWRITEBYTECODE has none, which would be measured instead.
    compileall.compile_dir(Path(envdoctor.__file__).parent, quiet=1)
    python = str(arguments.prefix / "bin" / "python")
    check = [str(Path(sys.executable).parent / "envdoctor"), "check", "--python", python, "--gpu", "4090"]
    commands = {
        "envdoctor --version": [check[0], "--version"],
        "python -c 'import click'": [sys.executable, "-c", "import click"],
        "envdoctor check": check,
        "torch.utils.collect_env": [python, "-m", "torch.utils.collect_env"],
    }
    for peer in arguments.peer:
        name, _, command = peer.partition("=")
        commands[name] = shlex.split(command.replace("{python}", python))
    report(measure(commands, runs=arguments.runs))
    if arguments.cold:
        print(f"envdoctor check, cold cache: {cold_wall(check, arguments.runs):.2f} s (median)")


def cold_wall(command: list[str], runs: int) -> float:
    """Return the median wall time in seconds with the page cache dropped before each run."""
    walls = []
    for _ in range(runs):
        subprocess.run(["sync"], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("3")
        walls.append(run_once(command).wall)
    return statistics.median(walls)


if __name__ == "__main__":
    main()
