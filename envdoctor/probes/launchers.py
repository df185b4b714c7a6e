"""Which scripts start another interpreter than the environment's, as in one that was moved."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from envdoctor.model.facts import Environment
from envdoctor.model.installation import Launcher
from envdoctor.probes.foreign_files import as_file_name, read_head

_STARTING_JOBS = ("accelerate", "deepspeed", "torchrun")
_OTHERS = ("ipython", "jupyter", "pip", "pip3", "pytest")
_HEAD = 1 << 10
_INTERPRETERS = (
    re.compile(rb"#!\s*(/\S*python[\d.]*[tm]?)(?:\s|$)"),
    # Where that line would be too long, pip and conda go by way of sh: '''exec' "/path/to/python" "$0" "$@"
    re.compile(rb"#!/bin/sh\n'''exec'\s+\"?(/[^\"\n]*python[\d.]*[tm]?)\"?\s"),
)


def find_launchers(environment: Environment) -> tuple[Launcher, ...]:
    """Find the scripts of a venv or conda environment, or on PATH while it is active, that lead out of it."""
    if environment.kind not in {"venv", "conda"}:  # those of a system may be for any Python of the system
        return ()
    return tuple(
        Launcher(script=str(script), interpreter=interpreter, exists=os.path.exists(interpreter))
        for script, interpreter in _read_interpreters(_find_scripts(environment))
        if not _is_own(interpreter, environment)
    )


def _is_own(interpreter: str, environment: Environment) -> bool:
    try:
        return os.path.samefile(os.path.dirname(interpreter), os.path.join(environment.prefix, "bin"))
    except OSError:
        return False


def _find_scripts(environment: Environment) -> Iterator[Path]:
    is_active = environment.chosen_because in {"VIRTUAL_ENV", "CONDA_PREFIX"}
    for name in (*_STARTING_JOBS, *_OTHERS):
        script = Path(environment.prefix, "bin", name)
        if os.path.lexists(script):
            yield script
        elif name in _STARTING_JOBS and is_active and (found := shutil.which(name)):
            yield Path(found)


def _read_interpreters(scripts: Iterator[Path]) -> Iterator[tuple[Path, str]]:
    for script in scripts:
        try:
            head = read_head(script, _HEAD)
        except OSError:
            continue
        if started := next(filter(None, (pattern.match(head) for pattern in _INTERPRETERS)), None):
            yield script, as_file_name(os.fsdecode(started[1]))
