"""Small real libraries for tests, compiled while the tests run."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no g++ to build libraries with")


def build_library(path: Path, source: str = "", *, needs: Sequence[Path] = (), options: Sequence[str] = ()) -> Path:
    """Compile C++ *source* into the shared library *path*, which then needs the libraries *needs* (DT_NEEDED)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [f"-l:{library.name}" for library in needs]
    folders = [f"-L{library.parent}" for library in needs]
    command = [COMPILER or "g++", "-shared", "-fPIC", "-O1", "-o", str(path), f"-Wl,-soname,{path.name}"]
    command += ["-x", "c++", "-", "-x", "none", "-Wl,--no-as-needed", *folders, *named, *options]
    subprocess.run(command, input=source, text=True, check=True)
    return path
