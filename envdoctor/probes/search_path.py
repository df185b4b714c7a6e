"""The search path of the examined interpreter: its own, PYTHONPATH, and what its site module reads from .pth files.

The `import` lines of .pth files are code, and are not run: those of the known kinds of editable installs are read.
"""

import ast
import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envdoctor.model.facts import SearchEntry
from envdoctor.probes.foreign_files import as_file_name, read_file
from envdoctor.probes.import_path import LONGEST_SOURCE, parse_source

# Their `import` lines change nothing that envdoctor looks at, and they are in almost every environment.
_HARMLESS = re.compile(r"distutils-precedence\.pth|_virtualenv\.pth|a1_coverage\.pth|.*-nspkg\.pth")
# easy_install before setuptools 19 closes its .pth file with a line that moves the new paths to the front.
_TO_THE_FRONT = "sys.__egginsert"
_BYTE_ORDER_MARK = "\ufeff"
_IMPORT = ("import ", "import\t")
_LONGEST_QUOTE = 60
_LARGEST_PTH = 1 << 20
_MOST_NAMED = 5
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
    hooked = (entry for entry in dict.fromkeys(found_last) if entry.path not in path)
    return SearchPath(entries=(*path.values(), *hooked), notes=tuple(notes))


def split_python_path(variable: str) -> Iterator[SearchEntry]:
    """Split PYTHONPATH as Python does: an empty part means the current folder."""
    if variable:
        yield from (SearchEntry(path=absolute(part), origin="PYTHONPATH") for part in variable.split(os.pathsep))


def absolute(path: str) -> str:
    """Make a path absolute, unless the current folder was deleted: then site.py lets it be, too."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path


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
        text = os.fsdecode(read_file(path, largest=_LARGEST_PTH))
    except OSError as exc:
        return _Pth(notes=(f"`{path}` cannot be read: {exc.strerror}",))
    oddity = _find_encoding_oddity(text, version)
    if version >= (3, 13):
        text = text.removeprefix(_BYTE_ORDER_MARK)
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    imports = [line for line in lines if line.startswith(_IMPORT)]
    named = [absolute(os.path.join(path.parent, line)) for line in lines if not line.startswith(_IMPORT)]
    targets = {target: os.path.exists(target) for target in named}
    hooks = [_read_import_hook(path, line) for line in imports]
    is_known = all(hook.is_clear for hook in hooks) or _HARMLESS.fullmatch(path.name) or _TO_THE_FRONT in text
    notes = [f"`{path}` {oddity}"] if oddity else []
    notes += _note_missing(path, [target for target, exists in targets.items() if not exists])
    if not is_known:
        code = textwrap.shorten(imports[0], _LONGEST_QUOTE, placeholder=" …")
        notes.append(f"`{path}` runs code at every start, which was not followed: {code}")
    return _Pth(
        folders=tuple(
            SearchEntry(path=target, origin=f".pth {path.name}") for target, exists in targets.items() if exists
        ),
        to_the_front=_TO_THE_FRONT in text,
        found_last=tuple(
            SearchEntry(path=str(package.parent), origin=f"editable {package.name}")
            for hook in hooks
            for package in hook.packages
        ),
        notes=tuple(notes),
    )


def _note_missing(path: Path, targets: list[str]) -> Iterator[str]:
    yield from (f"`{path}` names `{target}`, which does not exist" for target in targets[:_MOST_NAMED])
    if len(targets) > _MOST_NAMED:
        yield f"`{path}` names {len(targets) - _MOST_NAMED} more that do not exist"


def _find_encoding_oddity(text: str, version: tuple[int, ...]) -> str:
    if version < (3,):
        return ""
    if any("\udc80" <= character <= "\udcff" for character in text):  # bytes that os.fsdecode could not decode
        return "is not UTF-8: Python 3 does not start with it, unless its locale has another encoding"
    if text.startswith(_BYTE_ORDER_MARK) and version < (3, 13):
        return "opens with a byte-order mark, which Python before 3.13 takes for a part of the first path"
    return ""


# --- import hooks of editable installs ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hook:
    """What an `import` line of a .pth file adds: folders of packages that are found by the names of the folders."""

    packages: tuple[Path, ...] = ()
    is_clear: bool = False  # nothing else is found through it


def _read_import_hook(pth: Path, line: str) -> _Hook:
    module = re.split(r"[\s;,.]+", line)[1]
    if not module.isidentifier():
        return _Hook()
    try:
        tree = parse_source(read_file(pth.with_name(f"{module}.py"), largest=LONGEST_SOURCE))
    except (OSError, ValueError):
        return _Hook()
    mappings = _find_mappings(tree)
    places = {name: Path(as_file_name(place).removesuffix("/__init__.py")) for name, place in mappings}
    packages = {name: place for name, place in places.items() if place.name == name}
    others = [name for name in places if name.partition(".")[0] not in packages]
    return _Hook(packages=tuple(packages.values()), is_clear=bool(packages) and not others)


def _find_mappings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Find the names of packages and their places, in the ways in which build backends write them."""
    for node in ast.walk(tree):
        match node:
            case (
                # setuptools: MAPPING: dict[str, str] = {"pkg": "/repo/src/pkg"}
                ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict() as mapping)
                | ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict() as mapping)
                # scikit-build-core: install({"pkg": "/repo/src/pkg/__init__.py"}, ...)
                | ast.Call(func=ast.Name(id="install"), args=[ast.Dict() as mapping, *_])
            ):
                yield from _find_constant_items(mapping)
            # editables, which hatchling and pdm use: F.map_module("pkg", "/repo/src/pkg/__init__.py")
            case ast.Call(
                func=ast.Attribute(attr="map_module"),
                args=[ast.Constant(value=str() as name), ast.Constant(value=str() as target)],
            ):
                yield name, target


def _find_constant_items(mapping: ast.Dict) -> Iterator[tuple[str, str]]:
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        match key, value:
            case ast.Constant(value=str() as name), ast.Constant(value=str() as target):
                yield name, target
