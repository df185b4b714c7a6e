"""Which modules of the standard library and of the environment are hidden by namesakes that come first on the path.

What comes first: the folders of PYTHONPATH, and the folder that a job is started in. Names tell; nothing is imported.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envdoctor.model.facts import Environment, SearchEntry, Variable
from envdoctor.model.installation import ShadowedModule
from envdoctor.probes.foreign_files import read_head
from envdoctor.probes.search_path import absolute

_CURRENT_FOLDER = "current folder"
_PYTHONPATH = "PYTHONPATH"
_STANDARD_LIBRARY = "standard library"
_EDITABLE = "editable "

# Found before anything on the path since Python 3.11 (Python/frozen.c). Before, they are loaded at every start: when
# the current folder joins the path it is too late for it.
_FROZEN = frozenset(
    {
        *("_collections_abc", "_sitebuiltins", "abc", "codecs", "genericpath", "io", "ntpath", "os", "posixpath"),
        *("runpy", "site", "stat", "zipimport"),
    }
)
_LOADED_AT_START = _FROZEN | {"encodings"}
# In many repositories, and in wheels that were packed carelessly: nobody imports them by these names.
_BYSTANDERS = frozenset(
    {
        *("__init__", "__main__", "antigravity", "benchmarks", "bin", "build", "conftest", "dist", "doc", "docs"),
        *("example", "examples", "idlelib", "notebooks", "samples", "script", "scripts", "setup", "sitecustomize"),
        *("test", "testing", "tests", "this", "tools", "turtledemo", "usercustomize", "versioneer"),
    }
)
# What modules that every larger program imports take from others, in CPython 3.6 to 3.13; torch
# imports tempfile (torch/hub.py).
_ASKED_FOR = {
    "collections": ("namedtuple", "functools"),
    "functools": ("wraps", "contextlib"),
    "keyword": ("iskeyword", "collections"),
    "operator": ("itemgetter", "collections"),
    "random": ("Random", "tempfile"),
    "types": ("MappingProxyType", "enum"),
}
_LONGEST_SOURCE = 1 << 20
_BINDS_MORE = re.compile(rb"\bimport\s*\(?\s*\*|\bglobals\b|\bsetattr\b")


def find_shadowed_modules(environment: Environment, variables: tuple[Variable, ...]) -> tuple[ShadowedModule, ...]:
    """Find what PYTHONPATH hides, and what a job that is started in the current folder would not see."""
    folders = [_Folder(entry, environment.extension_suffixes) for entry in environment.search_path]
    shadowed: list[ShadowedModule] = []
    for index, folder in enumerate(folders):
        if folder.entry.origin == _PYTHONPATH:
            shadowed += _find_hidden(folder, folders[index + 1 :], _frozen(environment))
    if here := _find_current_folder(environment, variables):
        entry = SearchEntry(path=here, origin=_CURRENT_FOLDER)
        shadowed += _find_hidden(_Folder(entry, environment.extension_suffixes), folders, _LOADED_AT_START)
    return tuple(shadowed)


def _find_current_folder(environment: Environment, variables: tuple[Variable, ...]) -> str:
    """Return the folder that Python puts before all others, "" where it does not, or has it on its path anyway."""
    is_left_out = any(variable.name == "PYTHONSAFEPATH" and variable.value for variable in variables)
    here = absolute(".")
    if is_left_out or not os.path.isabs(here):  # it was deleted
        return ""
    return "" if any(_are_one(here, entry.path) for entry in environment.search_path) else here


def _frozen(environment: Environment) -> frozenset[str]:
    version = environment.python_version
    return _FROZEN if isinstance(version, tuple) and version >= (3, 11) else frozenset()


def _are_one(path: str, other: str) -> bool:
    """Whether two paths lead to one place, be it through links or through mounts."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


@dataclass(frozen=True)
class _Folder:
    """One folder of the search path, listed when it is first asked."""

    entry: SearchEntry
    suffixes: tuple[str, ...]

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The names of files and folders, by what they would be imported as."""
        try:
            listed = os.listdir(self.entry.path)
        except OSError:
            return {}
        names: dict[str, list[str]] = {}
        for name in listed:
            module = self._module_of(name)
            if module.isidentifier():
                names.setdefault(module, []).append(name)
        return names

    def _module_of(self, name: str) -> str:
        suffix = next((suffix for suffix in (".py", *self.suffixes) if name.endswith(suffix)), "")
        return name.removesuffix(suffix)

    def find(self, module: str) -> Path | None:
        """What `import` takes in this folder: a package before a file, and no folder without `__init__.py`."""
        paths = [Path(self.entry.path, name) for name in self.names.get(module, ())]
        files = [path for path in paths if path.name != module and os.path.isfile(path)]
        packages = [path for path in paths if path.name == module and os.path.isfile(path / "__init__.py")]
        return next(iter(packages + files), None)

    def find_mere_folder(self, module: str) -> Path | None:
        """A folder of that name, which `import` takes before it asks the hooks of editable installs."""
        folder = Path(self.entry.path, module)
        return folder if os.path.isdir(folder) else None


def _find_hidden(folder: _Folder, later: list[_Folder], passed_over: frozenset[str]) -> Iterator[ShadowedModule]:
    for module in sorted(folder.names.keys() - _BYSTANDERS - passed_over):
        if found := _find_later(module, later):
            hidden, origin = found
            by_hook = origin.startswith(_EDITABLE)
            taken = folder.find(module) or (folder.find_mere_folder(module) if by_hook else None)
            if taken and not _are_one(str(taken), str(hidden)):
                yield _describe(module, _Side(taken, folder.entry.origin), _Side(hidden, origin))


def _find_later(module: str, folders: list[_Folder]) -> tuple[Path, str] | None:
    for folder in folders:
        origin = folder.entry.origin
        if module not in folder.names or (origin.startswith(_EDITABLE) and origin != _EDITABLE + module):
            continue  # the hook of an editable install finds its own package only
        if found := folder.find(module):
            return found, origin
    return None


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two modules of a name."""

    path: Path
    origin: str


def _describe(module: str, taken: _Side, hidden: _Side) -> ShadowedModule:
    asked = _ASKED_FOR.get(module) if hidden.origin == _STANDARD_LIBRARY else None
    lacks = asked is not None and not _may_bind(taken.path, asked[0])
    return ShadowedModule(
        name=module,
        taken=str(taken.path),
        origin=taken.origin,
        hidden=str(hidden.path),
        hidden_origin=hidden.origin,
        lost=tuple(sorted(_extension_modules(hidden.path) - _extension_modules(taken.path))),
        lacking=asked[0] if asked and lacks else "",
        asked_by=asked[1] if asked and lacks else "",
    )


def _extension_modules(package: Path) -> set[str]:
    """Name the extension modules that lie directly in a package."""
    try:
        names = os.listdir(package)
    except OSError:
        return set()
    return {f"{package.name}.{name.partition('.')[0]}" for name in names if name.endswith(".so")}


def _may_bind(module: Path, name: str) -> bool:
    """Whether a module may have a name; no is a proof."""
    if module.suffix != ".py":
        return True
    try:
        source = read_head(module, _LONGEST_SOURCE)
    except OSError:
        return True
    return len(source) == _LONGEST_SOURCE or _BINDS_MORE.search(source) is not None or name.encode() in source
