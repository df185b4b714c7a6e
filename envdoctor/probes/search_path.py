"""The search path of the examined interpreter: its own, PYTHONPATH, and what its site module reads from .pth files.

The `import` lines of .pth files are code, and are not run: those of the known kinds of editable installs are read.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envdoctor.model.facts import SearchEntry

# Their `import` lines change nothing that envdoctor looks at, and they are in almost every environment.
_HARMLESS = re.compile(r"distutils-precedence\.pth|_virtualenv\.pth|a1_coverage\.pth|.*-nspkg\.pth")
# easy_install before setuptools 19 closes its .pth file with a line that moves the new paths to the front.
_TO_THE_FRONT = "sys.__egginsert"
# The first patch releases whose site module passes over .pth files with a leading dot (gh-113659).
_PASSES_OVER_HIDDEN: dict[tuple[int, ...], int] = {(3, 8): 19, (3, 9): 19, (3, 10): 14, (3, 11): 8, (3, 12): 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPath:
    """A `sys.path`, and what was odd about the .pth files that it came from."""

    entries: tuple[SearchEntry, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pth:
    """What one .pth file does."""

    folders: tuple[SearchEntry, ...] = ()  # its lines that name something that exists
    to_the_front: bool = False
    found_last: tuple[SearchEntry, ...] = ()  # through import hooks, which are asked after `sys.path`
    notes: tuple[str, ...] = ()


def build_search_path(
    initial: Iterable[SearchEntry], site_folders: Iterable[SearchEntry], version: tuple[int, ...]
) -> SearchPath:
    """Put the search path together in the order in which site.py of Python *version* does."""
    path: dict[str, SearchEntry] = {}
    for entry in initial:
        path.setdefault(entry.path, entry)
    found_last: list[SearchEntry] = []
    notes: list[str] = []
    for folder in site_folders:
        path.setdefault(folder.path, folder)
        for pth in _read_pth_files(folder.path, version):
            added = {entry.path: entry for entry in pth.folders if entry.path not in path}
            path = added | path if pth.to_the_front else path | added
            found_last += pth.found_last
            notes += pth.notes
    for entry in found_last:
        path.setdefault(entry.path, entry)
    return SearchPath(entries=tuple(path.values()), notes=tuple(notes))


def split_python_path(variable: str) -> Iterator[SearchEntry]:
    """Split PYTHONPATH as Python does: an empty part means the current folder."""
    if variable:
        yield from (SearchEntry(path=os.path.abspath(part), origin="PYTHONPATH") for part in variable.split(os.pathsep))


def _read_pth_files(folder: str, version: tuple[int, ...]) -> Iterator[_Pth]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
    except OSError as exc:
        yield _Pth(notes=(f"`{folder}` cannot be listed: {exc.strerror}",))
        return
    yield from (_read_pth(Path(folder, name), version) for name in names if _is_read(name, version))


def _is_read(name: str, version: tuple[int, ...]) -> bool:
    passes_over_hidden = version >= (3, 13) or version[2:] >= (_PASSES_OVER_HIDDEN.get(version[:2], 99),)
    return not (name.startswith(".") and passes_over_hidden)


def _read_pth(path: Path, version: tuple[int, ...]) -> _Pth:
    try:
        text = os.fsdecode(path.read_bytes())
    except OSError as exc:
        return _Pth(notes=(f"`{path}` cannot be read: {exc.strerror}",))
    if version >= (3, 13):
        text = text.removeprefix("\ufeff")
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    imports = [line for line in lines if line.startswith(("import ", "import\t"))]
    targets = [os.path.abspath(path.parent / line) for line in lines if line not in imports]
    hooks = [hook for line in imports for hook in _read_import_hook(path, line)]
    is_code = imports and not hooks and not _HARMLESS.fullmatch(path.name) and _TO_THE_FRONT not in text
    return _Pth(
        folders=tuple(SearchEntry(path=target, origin=path.name) for target in targets if os.path.exists(target)),
        to_the_front=_TO_THE_FRONT in text,
        found_last=tuple(hooks),
        notes=(
            *(f"`{path}` names `{target}`, which does not exist" for target in targets if not os.path.exists(target)),
            *([f"`{path}` runs code at every start, which was not followed: {imports[0][:60]}"] if is_code else []),
        ),
    )


def _read_import_hook(pth: Path, line: str) -> Iterator[SearchEntry]:
    """Yield the folders in which the import hook of an editable install finds its packages."""
    module = pth.with_name(re.split(r"[\s;,.]+", line)[1] + ".py")
    try:
        tree = ast.parse(module.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for name, target in _mapped_packages(tree):
        # A package is found in the folder that holds it, if it goes by its own name there.
        if (path := Path(target)).stem == name:
            yield SearchEntry(path=str(path.parent), origin=f"editable {name}")


def _mapped_packages(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            # setuptools: MAPPING: dict[str, str] = {"pkg": "/repo/src/pkg"}
            case (
                ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict() as mapping)
                | ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict() as mapping)
            ):
                yield from _constant_items(mapping)
            # editables (hatchling, pdm): F.map_module("pkg", "/repo/src/pkg/__init__.py")
            case ast.Call(
                func=ast.Attribute(attr="map_module"),
                args=[ast.Constant(value=str() as name), ast.Constant(value=str() as target)],
            ):
                yield name, target.removesuffix("/__init__.py")


def _constant_items(mapping: ast.Dict) -> Iterator[tuple[str, str]]:
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        match key, value:
            case ast.Constant(value=str() as name), ast.Constant(value=str() as target):
                yield name, target
