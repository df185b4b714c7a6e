"""Where on this machine the library, version or symbol lies that the dynamic loader does not find."""

import glob
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from envdoctor.binary.elf import Elf, parse_elf
from envdoctor.binary.loader_cache import read_loader_cache
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.binary.symbols import SymbolTable, Version, gnu_hash
from envdoctor.model.facts import Environment, TorchBuild, Unavailable, Variable
from envdoctor.model.loading import LoadFailure, LoadFault
from envdoctor.model.visibility import value_of
from envdoctor.probes.driver_libraries import find_library
from envdoctor.probes.foreign_files import find_files, read_file
from envdoctor.probes.library_files import LibraryFiles

T = TypeVar("T")

_ROOT = Path("/")
_LOADER_CACHE = "/etc/ld.so.cache"
_TOOLKITS = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib")
_MOST_NAMED = 8
_MOST_NEIGHBOURS = 100


@dataclass(frozen=True)
class Holders:
    """The files of an environment and of the system, by their names."""

    environment: Environment
    torch: TorchBuild | Unavailable
    found: LibraryFiles
    variables: tuple[Variable, ...]

    def complete(self, failure: LoadFailure) -> LoadFailure:
        """Say which files have what is missing."""
        match failure.fault:
            case LoadFault.LIBRARY:
                machine = _read_machine(failure.file)
                fitting = (path for path in self.find(failure.name) if machine and _read_machine(path) == machine)
                return replace(failure, holders=_first(fitting), relatives=_first(self._find_relatives(failure.name)))
            case LoadFault.VERSION if failure.provider:
                candidates = self.find(os.path.basename(failure.provider.name), but=failure.provider.path)
                return replace(failure, holders=_first(path for path in candidates if _has_version(path, failure.name)))
            case LoadFault.SYMBOL:
                candidates = self._find_for_symbol(failure)
                return replace(failure, holders=_first(path for path in candidates if _has_symbol(path, failure)))
        return failure

    def find_own(self, name: str) -> str:
        """Return the file that the environment itself brings for a library: its torch, an nvidia-* distribution, conda.

        "" when it brings none.
        """
        return self._own.get(name, "")

    @cached_property
    def _own(self) -> dict[str, str]:
        of_torch = () if isinstance(self.torch, Unavailable) else self.torch.libraries
        of_nvidia = (each.path for each in self.found.libraries if each.place.startswith("nvidia" + os.sep))
        of_conda = map(str, find_files(Path(self.environment.prefix, "lib"), "*.so*")) if self._is_conda else ()
        return {os.path.basename(path): path for path in (*of_conda, *of_nvidia, *of_torch)}

    # --- candidates --------------------------------------------------------------------------------------------

    def find(self, name: str, *, but: str = "") -> Iterator[str]:
        """Find the files of a name, each once, other than *but*."""
        seen = {os.path.realpath(but)} if but else set()
        of_system = (str(path) for path, _ in find_library(name, _ROOT, {}))
        others = (os.path.join(folder, name) for folder in self._other_folders)
        # A file may have several names, of which the walk over the environment kept one.
        own = (os.path.join(os.path.dirname(path), name) for path in self._by_base.get(_base_of(name), ()))
        for path in (*own, *others, *of_system):
            if (real := os.path.realpath(path)) not in seen and os.path.isfile(real):
                yield path
            seen.add(real)

    def _find_relatives(self, name: str) -> Iterator[str]:
        """Find other versions of a library: `libcudart.so.12` for `libcudart.so.11.0`."""
        base = _base_of(name)
        is_relative = re.compile(rf"{re.escape(base)}\.so(\.[0-9.]+)?$").match
        others = (str(path) for folder in self._other_folders for path in find_files(Path(folder), f"{base}.so*"))
        cached = (path for other, paths in self._cache.items() if is_relative(other) for path in paths)
        own = self._by_base.get(base, ())
        seen = set()
        # Links without a version tell least of what they lead to.
        for path in sorted((*own, *others, *cached), key=lambda path: path.endswith(".so")):
            is_other = is_relative(os.path.basename(path)) and os.path.basename(path) != name
            if is_other and (real := os.path.realpath(path)) not in seen and os.path.isfile(real):
                seen.add(real)
                yield path

    def _find_for_symbol(self, failure: LoadFailure) -> Iterator[str]:
        """Find what may define a symbol: files of the library that it is asked of, else of torch, package and needs."""
        provider = failure.provider
        if provider:
            yield from self.find(os.path.basename(provider.name), but=provider.path)
            return
        yield from () if isinstance(self.torch, Unavailable) else self.torch.libraries
        yield from self._find_neighbours(failure.file)
        for name in _read_needed(failure.file):
            yield from self.find(name)

    def _find_neighbours(self, path: str) -> Iterator[str]:
        """Find the libraries of the same package: it may open them for everybody before those that need them."""
        packages = (os.path.join(each.root, each.place.partition(os.sep)[0], "") for each in self.found.libraries)
        package = next((each for each in packages if path.startswith(each)), "")
        beside = (each.path for each in self.found.libraries if package and each.path.startswith(package))
        yield from itertools.islice((each for each in beside if each != path), _MOST_NEIGHBOURS)

    @cached_property
    def _by_base(self) -> dict[str, list[str]]:
        by_base = defaultdict(list)
        for library in self.found.libraries:
            by_base[_base_of(os.path.basename(library.path))].append(library.path)
        return by_base

    @cached_property
    def _other_folders(self) -> tuple[str, ...]:
        """Folders that the loader does not look into by itself: of conda, and of CUDA toolkits."""
        prefixes = [value_of(self.variables, "CONDA_PREFIX")]
        prefixes += [self.environment.prefix] if self._is_conda else []
        conda = (os.path.join(prefix, "lib") for prefix in prefixes if prefix)
        toolkits = (folder for pattern in _TOOLKITS for folder in sorted(glob.glob(pattern)))
        return tuple(dict.fromkeys((*conda, *toolkits)))

    @property
    def _is_conda(self) -> bool:
        return self.environment.kind == "conda"

    @cached_property
    def _cache(self) -> dict[str, tuple[str, ...]]:
        try:
            cache = read_loader_cache(read_file(_LOADER_CACHE), os.uname().machine)
        except (OSError, BinaryError):
            return {}
        return {name: tuple(library.path for library in libraries) for name, libraries in cache.items()}


def _base_of(name: str) -> str:
    return name.partition(".so")[0]


def _first(paths: Iterable[str]) -> tuple[str, ...]:
    """Take the first few of what takes time to find."""
    found: dict[str, None] = {}
    for path in paths:
        found[path] = None
        if len(found) == _MOST_NAMED:
            break
    return tuple(found)


# --- what one file has -------------------------------------------------------------------------------------------


def _has_version(path: str, version: str) -> bool:
    return bool(_ask(path, lambda elf: version.encode() in (SymbolTable(elf).defined_versions or ())))


def _has_symbol(path: str, failure: LoadFailure) -> bool:
    name = failure.name.encode()
    version = Version(failure.symbol_version.encode()) if failure.symbol_version else None
    return bool(_ask(path, lambda elf: SymbolTable(elf).defines(name, gnu_hash(name), version)))


def _read_needed(path: str) -> tuple[str, ...]:
    return _ask(path, lambda elf: elf.needed) or ()


def _read_machine(path: str) -> int | None:
    return _ask(path, lambda elf: elf.header.machine)


def _ask(path: str, question: Callable[[Elf], T]) -> T | None:
    """Put a question to a library; None when it cannot be read."""
    try:
        with open_file(path) as reader:
            return question(parse_elf(reader))
    except (OSError, BinaryError):
        return None
