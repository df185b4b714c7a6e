"""The real loader and the emulated one, asked the same of a process of this Python."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.binary.library_search import SearchRules, split_preload
from envdoctor.binary.link import Process, start_process
from envdoctor.binary.loadable import GlibcVersion
from envdoctor.binary.loader_world import Files
from envdoctor.errors import ProbeError
from envdoctor.probes.loader_files import LoaderFiles
from envdoctor.probes.loader_settings import read_interpreter_file, read_search_rules

PROGRAM = os.path.realpath(sys.executable)

# Opens every library in a child of its own; the first ones are opened for good, before.
_ASK = """
import ctypes, json, os, signal, sys
first, paths = json.loads(sys.stdin.read())
for path, is_global in first:
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL if is_global else ctypes.RTLD_LOCAL)
words = []
for path in paths:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(path)
        except OSError as error:
            os.write(writing, str(error).encode("utf-8", "backslashreplace"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    status = os.waitpid(child, 0)[1]
    words.append(signal.strsignal(status & 127) if status & 127 else said or ("exit" if status else ""))
print("\\n" + json.dumps(words))
"""


def _find_rules() -> SearchRules | str:
    """The rules of this machine, or why they cannot be told."""
    try:
        machine, loader = read_interpreter_file(PROGRAM)
        if "ld-linux" not in loader:
            return f"the loader of {PROGRAM} is not glibc's"
        return read_search_rules(loader, machine, "")
    except (ProbeError, OSError) as exc:
        return str(exc)


_RULES = _find_rules()
needs_glibc = pytest.mark.skipif(isinstance(_RULES, str), reason=str(_RULES) if isinstance(_RULES, str) else "")


def rules_of_this_machine(library_path: str = "") -> SearchRules:
    assert isinstance(_RULES, SearchRules)
    return replace(_RULES, library_path=tuple(re.split("[:;]", library_path)) if library_path else ())


def start(
    variables: Mapping[str, str] | None = None,
    *,
    program: Path | str = PROGRAM,
    glibc: GlibcVersion | None = None,
    files: Files | None = None,
) -> Process:
    """Start the emulated process of this Python, with the glibc and the files of this machine, or of others."""
    values = variables or {}
    rules = rules_of_this_machine(values.get("LD_LIBRARY_PATH", ""))
    rules = replace(rules, glibc=glibc or rules.glibc)
    process = start_process(files or LoaderFiles(), rules, str(program), split_preload(values.get("LD_PRELOAD", "")))
    assert isinstance(process, Process)
    return process


def predict(
    paths: Iterable[Path | str], variables: Mapping[str, str] | None = None, *, first: Iterable[tuple[Path, bool]] = ()
) -> list[str]:
    """What the emulated loader says of each library, "" where it loads, when *first* are loaded before."""
    process = start(variables)
    for path, is_global in first:
        assert process.open(str(path), is_global=is_global) is None
    failures = [process.copy().open(str(path)) for path in paths]
    return [failure.words if failure else "" for failure in failures]


def ask(
    paths: Iterable[Path | str], variables: Mapping[str, str] | None = None, *, first: Iterable[tuple[Path, bool]] = ()
) -> list[str]:
    """What the real loader says of each library."""
    question = json.dumps([[(str(path), is_global) for path, is_global in first], [str(path) for path in paths]])
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LD_")} | dict(variables or {})
    done = subprocess.run(
        [PROGRAM, "-c", _ASK], input=question, capture_output=True, text=True, check=True, env=environ
    )
    answers: list[str] = json.loads(done.stdout.splitlines()[-1])
    return answers
