"""Real interpreters of this machine, and environments made with them, for the tests of what is examined."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSIONS = ("2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
PYTHON3_VERSIONS = VERSIONS[1:]


def find_python(version: str) -> Path:
    """Find an interpreter of that version, among those of pyenv and on PATH; skip the test where there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(root.glob(f"versions/{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    if installed:
        return installed[-1]
    if not on_path:
        pytest.skip(f"there is no Python {version} here")
    return Path(ask(Path(on_path), "sys.executable"))


def ask(python: Path, expression: str) -> str:
    """Let an interpreter print the value of an expression, as a job that it runs would see it."""
    program = f"import sys, os; sys.stdout.write(str({expression}))"
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout


def sys_path_of(python: Path) -> list[str]:
    """The `sys.path` of a job, without the folder of its script, which comes first."""
    return ask(python, "'\\n'.join(sys.path[1:])").splitlines()


def make_venv(folder: Path, version: str, *options: str) -> Path:
    """Make a venv without pip; return its interpreter."""
    python = find_python(version)
    subprocess.run([python, "-m", "venv", "--without-pip", *options, folder], check=True, capture_output=True)
    return folder / "bin" / "python"


def make_prefix(folder: Path, version: str) -> Path:
    """Make a prefix of its own, as conda and installers do: a copied interpreter and links to a library.

    Its site-packages are empty, and its own.
    """
    python = Path(os.path.realpath(find_python(version)))
    name = f"python{version}"
    library = folder / "lib" / name
    (library / "site-packages").mkdir(parents=True)
    for part in (python.parents[1] / "lib" / name).iterdir():
        if part.name != "site-packages":
            (library / part.name).symlink_to(part)
    for shared in (python.parents[1] / "lib").glob("libpython*"):
        (folder / "lib" / shared.name).symlink_to(shared)
    (folder / "bin").mkdir()
    shutil.copy(python, folder / "bin" / name)
    (folder / "bin" / "python").symlink_to(name)
    return folder / "bin" / "python"


def site_packages_of(python: Path) -> Path:
    """The site-packages folder of an environment of the usual layout."""
    return next(python.parents[1].glob("lib/python*/site-packages"))


def add_user_site(base: Path, version: str) -> Path:
    """Make the user site that an interpreter of that version has under PYTHONUSERBASE."""
    folder = base / "lib" / f"python{version}" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def write_script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
