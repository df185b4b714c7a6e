"""The shared libraries that an interpreter could load: those in the folders of its search path, and torch's."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from envdoctor.model.facts import Environment, SearchEntry, TorchBuild, Unavailable
from envdoctor.probes.foreign_files import is_locked

LINUX_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$")
WINDOWS_LIBRARY = re.compile(r"\.(pyd|dll)$", re.IGNORECASE)

STANDARD_LIBRARY = "standard library"
_EDITABLE = "editable "
# An extension module for one interpreter: of CPython from 3.5 on, PyPy, GraalPy (PEP 3149), or Windows.
TAGGED_MODULE = re.compile(r"\.((cpython|pypy|graalpy)[^.]*\.so|cp\d+[^.]*\.pyd)$")

_NEVER_ENTERED = frozenset({"__pycache__", "node_modules"})
_METADATA_SUFFIXES = (".dist-info", ".egg-info")
# A source root may hold data sets. Modules lie in packages, or in folders that are named like packages; of those that
# have no __init__.py only the upper ones are looked into, none that is far too full for sources, and not the one where
# setuptools and CMake leave what they once built.
_DEEPEST_NAMESPACE = 2
_FULLEST_NAMESPACE = 10_000
_BUILD_FOLDER = "build"
_HEADER_FOLDER = "include"  # C++ headers: four of ten files beside torch 2.14.1


class Library(NamedTuple):
    """One file, and where on the search path it was found."""

    path: str
    root: str  # the folder of the search path, "" for libraries of torch outside of it
    place: str  # its path below that folder


class LibraryFiles(NamedTuple):
    """What one walk over the folders of a search path finds."""

    libraries: tuple[Library, ...]
    foreign: tuple[Library, ...]  # extension modules whose names are tagged for another interpreter


def find_libraries(environment: Environment, torch: TorchBuild | Unavailable) -> LibraryFiles:
    """Find every library once: of several paths to a file the earlier, and those of *torch* before all others.

    A package hides those of its name that lie later on the search path: nobody loads their libraries.
    """
    found = list(_find_of_torch(environment, torch))
    foreign: list[Library] = []
    pattern = WINDOWS_LIBRARY if environment.platform.startswith("win") else LINUX_LIBRARY
    hidden: set[str] = set()
    for entry in environment.search_path:
        if entry.origin != STANDARD_LIBRARY:
            walk = _Walk(entry, pattern, environment.extension_suffixes, frozenset(hidden))
            found += walk.find()
            found += walk.locked
            foreign += walk.foreign
            hidden |= walk.packages
    return LibraryFiles(tuple(_distinct(found)), tuple(_distinct(foreign)))


def _find_of_torch(environment: Environment, torch: TorchBuild | Unavailable) -> Iterator[Library]:
    if isinstance(torch, Unavailable):
        return
    roots = [entry.path for entry in environment.search_path]
    for path in dict.fromkeys((*torch.loaded_libraries, *torch.libraries)):
        root = next((root for root in roots if path.startswith(root + os.sep)), "")
        yield Library(path, root, os.path.relpath(path, root) if root else path)


def _distinct(libraries: Iterable[Library]) -> Iterator[Library]:
    """Take every file once; a link that leads nowhere, or a file that is gone, stays."""
    seen = set()
    for library in libraries:
        try:
            status = os.stat(library.path)
        except OSError:
            key: object = library.path
        else:
            key = (status.st_dev, status.st_ino)
        if key not in seen:
            seen.add(key)
            yield library


@dataclass
class _Walk:
    """One folder of the search path, gone through once."""

    entry: SearchEntry
    pattern: re.Pattern[str]
    extension_suffixes: tuple[str, ...]
    hidden: frozenset[str]
    packages: set[str] = field(default_factory=set)  # those of the folder; namespaces share their name with others
    foreign: list[Library] = field(default_factory=list)  # modules for another interpreter
    locked: list[Library] = field(default_factory=list)  # folders of site-packages that this user cannot list
    _followed: set[str] = field(default_factory=set)

    def find(self) -> Iterator[Library]:
        waiting = [(self._top, 0)]
        while waiting:
            items, depth = waiting.pop()
            files = _sorted(item for item in items if self.pattern.search(item.name))
            for item in files if self._holds_modules(items, depth) else ():
                if self._is_loadable(item.name):
                    yield self._as_library(item)
                else:
                    self.foreign.append(self._as_library(item))
            folders = _sorted(item for item in items if _is_folder(item))
            waiting += ((below, depth + 1) for item in folders if (below := self._enter(item, depth)))

    def _as_library(self, item: os.DirEntry[str]) -> Library:
        return Library(item.path, self.entry.path, os.path.relpath(item.path, self.entry.path))

    def _holds_modules(self, items: list[os.DirEntry[str]], depth: int) -> bool:
        """Tell folders of modules from folders of test data, below the top of a source root."""
        return depth == 0 or not self._is_source or any(item.name.endswith(".py") for item in items)

    def _is_loadable(self, name: str) -> bool:
        """Tell extension modules for another interpreter, which source roots and some wheels hold as well."""
        tagged = tuple(suffix for suffix in self.extension_suffixes if suffix.count(".") > 1)
        return not self.extension_suffixes or name.endswith(tagged) or not TAGGED_MODULE.search(name)

    @property
    def _top(self) -> list[os.DirEntry[str]]:
        top = _list(self.entry.path)
        if not self.entry.origin.startswith(_EDITABLE):
            return top
        # The import hook of an editable install finds this package there, and no other.
        name = self.entry.origin.removeprefix(_EDITABLE)
        return [item for item in top if item.name.partition(".")[0] == name]

    def _enter(self, item: os.DirEntry[str], depth: int) -> list[os.DirEntry[str]]:
        """List a folder that may hold code, [] for all others."""
        name = item.name
        if name in _NEVER_ENTERED or name.startswith((".", "~")):
            return []
        if depth == 0 and (name.endswith(_METADATA_SUFFIXES) or name.partition(".")[0] in self.hidden):
            return []
        if item.is_symlink() and not self._is_followed(item.path):
            return []
        below = _list(item.path)
        if not below and not self._is_source and is_locked(item.path):
            self.locked.append(self._as_library(item))
        return below if self._is_code(name, below, depth) else []

    def _is_followed(self, link: str) -> bool:
        """Follow a link to a folder once, and none to a folder above the search path: others live there."""
        target = os.path.realpath(link)
        is_above = os.path.realpath(self.entry.path).startswith(os.path.join(target, ""))
        is_new = target not in self._followed and not is_above
        self._followed.add(target)
        return is_new

    def _is_code(self, name: str, items: list[os.DirEntry[str]], depth: int) -> bool:
        is_package = any(item.name == "__init__.py" for item in items)
        if is_package and depth == 0:
            self.packages.add(name)
        if is_package or not self._is_source:
            return is_package or name != _HEADER_FOLDER
        is_namespace = name.isidentifier() and name != _BUILD_FOLDER and depth < _DEEPEST_NAMESPACE
        return is_namespace and len(items) < _FULLEST_NAMESPACE

    @cached_property
    def _is_source(self) -> bool:
        """Whether this is a folder of sources that PYTHONPATH or an editable install names, and no site folder."""
        if self.entry.path.endswith((".egg", "site-packages", "dist-packages")):
            return False
        is_named = self.entry.origin.startswith(_EDITABLE) or self.entry.origin.endswith(("PYTHONPATH", ".pth"))
        return is_named and not any(item.name.endswith(".dist-info") for item in _list(self.entry.path))


def _list(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return list(items)
    except OSError:  # the interpreter cannot list it either; for folders of the search path the environment says so
        return []


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a loop of links, or a link into a folder that is locked
        return False


def _sorted(items: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    return sorted(items, key=lambda item: item.name)
