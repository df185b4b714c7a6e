"""What `import NAME` would find on the search path of the examined interpreter, from file names alone."""

import ast
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from envdoctor.model.facts import Absence, Environment, SearchEntry, Unavailable
from envdoctor.probes.foreign_files import is_locked, read_head

# Python 3.10 crashes when it parses a chain of operators four times as long.
LONGEST_SOURCE = 1 << 16


def find_import_packages(environment: Environment, name: str) -> tuple[Path, ...]:
    """The folders that are the package *name*, in the order of the search path: the first is imported.

    Folders without ``__init__.py`` come last: Python takes one as a namespace package when it finds nothing else.
    """
    folders = [os.path.join(entry.path, name) for entry in find_entries(environment, name)]
    unique = {os.path.realpath(folder): folder for folder in reversed(folders) if os.path.isdir(folder)}
    in_order = [Path(folder) for folder in reversed(unique.values())]
    return tuple(sorted(in_order, key=lambda folder: not os.path.isfile(folder / "__init__.py")))


def find_shadowing_modules(environment: Environment, package: Path) -> Iterator[Path]:
    """Yield the single files, e.g. ``torch.py``, that are imported instead of *package*."""
    for entry in find_entries(environment, package.name):
        if Path(entry.path) == package.parent:
            return  # within one folder a package comes before a file
        for suffix in (".py", *environment.extension_suffixes):
            if os.path.isfile(module := Path(entry.path, f"{package.name}{suffix}")):
                yield module


def describe_absence(environment: Environment, name: str) -> Unavailable:
    """Say why the package *name* was not found: it is not installed, or where it may be cannot be read."""
    for entry in find_entries(environment, name):
        for folder in (entry.path, os.path.join(entry.path, name)):
            if is_locked(folder):
                return Unavailable(f"{name} may be in `{folder}`, which this user cannot read")
    return Unavailable(f"{name} is not installed", Absence.NOT_APPLICABLE)


def find_entries(environment: Environment, name: str) -> Iterator[SearchEntry]:
    """Yield the folders that are searched for *name*: the import hook of an editable install finds its own only."""
    for entry in environment.search_path:
        if not entry.origin.startswith("editable ") or entry.origin == f"editable {name}":
            yield entry


def read_constants(source: Path) -> dict[str, object]:
    """Read the constants that a small module assigns, with or without annotations, without executing it.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not Python.

    """
    constants: dict[str, object] = {}
    for statement in parse_source(read_head(source, LONGEST_SOURCE)).body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value))
            ):
                constants[name] = value
    return constants


def parse_source(source: bytes) -> ast.Module:
    """Parse a module of at most `LONGEST_SOURCE` bytes.

    Raises:
        ValueError: it is not Python.

    """
    # A byte-order mark is no part of the text.
    text = source.decode("utf-8-sig", "replace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dubious escape sequences are the author's business
        try:
            return ast.parse(text)
        except (SyntaxError, RecursionError, MemoryError) as exc:
            raise ValueError(f"it is not Python: {exc}") from exc
