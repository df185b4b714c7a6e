"""The whole story of one library: whose it is, what it needs, where that comes from, and what the loader will say."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from envdoctor.binary.binding import Binding, as_text
from envdoctor.binary.elf import parse_elf
from envdoctor.binary.link import Process
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.binary.symbols import SymbolTable
from envdoctor.errors import ProbeError
from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Facts, LibraryRole, Unavailable
from envdoctor.model.loading import LoadedLibrary, LoadFailure, LoadFault
from envdoctor.model.story import LibraryStory, LoadedBy, MissingSymbol, Namesake, NeededLibrary, Story, VersionNeed
from envdoctor.probes.demangling import demangle
from envdoctor.probes.device_code import read_device_code
from envdoctor.probes.jit_cache import find_jit_libraries
from envdoctor.probes.libraries import is_of_nvidia
from envdoctor.probes.library_files import TAGGED_MODULE, find_libraries
from envdoctor.probes.library_names import LibraryNames
from envdoctor.probes.loader import Installation, Prediction
from envdoctor.probes.loader_process import start_processes
from envdoctor.probes.modules import OpenedLibrary

_FAMILY = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)$")
_MOST_SYMBOLS = 5
_MOST_OTHERS = 8


def find_story(asked: str, facts: Facts, kb: KnowledgeBase) -> Story:
    """Tell the story of the library that *asked* means, in the environment that *facts* are about.

    Raises:
        UnknownLibraryError: nothing there goes by that name.

    """
    return _Teller(facts, kb).tell(asked)


class _Table(NamedTuple):
    """What the dynamic table of a library says; all of it is empty for a file that cannot be read."""

    soname: str = ""
    rpath: str = ""
    runpath: str = ""
    needed: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()  # which version is asked of which library


class _Opening(NamedTuple):
    """A process in which a library was opened, as far as the loader came."""

    process: Process
    before: frozenset[str]  # real paths of what was loaded before
    failure: LoadFailure | None


@dataclass(frozen=True)
class _Teller:
    """One environment, asked about one library."""

    facts: Facts
    kb: KnowledgeBase

    @cached_property
    def _installation(self) -> Installation:
        environment, distributions = self.facts.environment, self.facts.distributions
        assert not isinstance(environment, Unavailable)
        return Installation(
            environment=environment,
            distributions=() if isinstance(distributions, Unavailable) else distributions,
            torch=self.facts.torch,
            libraries=find_libraries(environment, self.facts.torch),
            variables=() if isinstance(self.facts.variables, Unavailable) else self.facts.variables,
            jit_libraries=tuple(find_jit_libraries(self.facts.jit_extensions, self.facts.torch)),
        )

    @cached_property
    def _prediction(self) -> Prediction:
        found = self._installation
        processes = start_processes(found.environment, found.torch, found.variables)
        if isinstance(processes, Unavailable):
            raise ProbeError(f"what the loader will do cannot be told: {processes.reason}")
        return Prediction(found, processes, self.kb)

    @cached_property
    def _names(self) -> LibraryNames:
        return LibraryNames(self._prediction)

    def tell(self, asked: str) -> Story:
        """Choose among what was found, and tell."""
        found = self._names.find(asked)
        first = next((each for each in found if each.library.path in self._failed), found[0])
        return Story(
            asked=asked,
            packages=first.library.root or self._packages_of_torch,
            library=self._describe(first),
            namesakes=tuple(
                Namesake(path=each.library.path, module=each.module, fails=each.library.path in self._failed)
                for each in found
                if each is not first
            ),
        )

    @property
    def _packages_of_torch(self) -> str:
        torch = self._installation.torch
        return "" if isinstance(torch, Unavailable) else os.path.dirname(torch.root)

    @cached_property
    def _failed(self) -> frozenset[str]:
        loader = self.facts.loader
        return frozenset() if isinstance(loader, Unavailable) else frozenset(each.library for each in loader.failed)

    # --- one library -------------------------------------------------------------------------------------------

    def _describe(self, opened: OpenedLibrary) -> LibraryStory:
        owner = self._prediction.owners.owner_of(opened.library)
        versions = (each.version for each in self._installation.distributions if each.name == owner)
        version = next(versions, "")
        names = self._prediction.owners.import_names(owner)
        unpredicted = self._why_unpredicted(opened)
        opening = self._open(opened, is_asked=not unpredicted)
        table = _read_table(opened.library.path)
        path = _find_loaded_path(opened.library.path, opening.process)
        needed = tuple(self._describe_needed(name, path, opening) for name in table.needed)
        loaded_by = self._loaded_by(opened)
        is_imported = opened.module and loaded_by is LoadedBy.NOTHING
        find_chain = self._prediction.chains.find
        return LibraryStory(
            path=opened.library.path,
            place=opened.library.place,
            real_path=os.path.realpath(opened.library.path),
            distribution=owner,
            distribution_version=version if isinstance(version, str) else "",
            module=opened.module,
            foreign_tag=self._foreign_tag(opened),
            import_chain=find_chain(opened.module, opened.library.path, names).statements if is_imported else (),
            loaded_by=loaded_by,
            loaded=next((loaded for loaded in opening.process.loaded if loaded.path == path), None),
            after_torch=self._prediction.process_of(opened) is self._prediction.processes.after_torch,
            unpredicted=unpredicted,
            failure=opening.failure,
            missing_symbols=tuple(self._find_missing_symbols(opening.failure)),
            soname=table.soname,
            rpath=table.rpath,
            runpath=table.runpath,
            needed=needed,
            brought=tuple(_find_brought(path, needed, opening)),
            versions=tuple(_compare_versions(table, path, opening.process)),
            device_code=self._read_device_code(opened, owner),
        )

    def _foreign_tag(self, opened: OpenedLibrary) -> str:
        if opened.library not in self._installation.libraries.foreign:
            return ""
        tag = TAGGED_MODULE.search(os.path.basename(opened.library.path))
        return os.path.splitext(tag[0])[0].removeprefix(".") if tag else ""

    def _read_device_code(self, opened: OpenedLibrary, owner: str) -> DeviceCode:
        known = () if isinstance(self.facts.device_code, Unavailable) else self.facts.device_code
        role = LibraryRole.NVIDIA if is_of_nvidia(opened.library) else LibraryRole.EXTENSION
        found = (code for code in known if code.library == opened.library.path)
        return next(found, None) or read_device_code(opened.library.path, role=role, distribution=owner)

    # --- opening it --------------------------------------------------------------------------------------------

    def _loaded_by(self, opened: OpenedLibrary) -> LoadedBy:
        alone, after = self._prediction.processes.alone, self._prediction.processes.after_torch
        real = os.path.realpath(opened.library.path)
        if real in _paths_of(alone):
            return LoadedBy.PYTHON
        return LoadedBy.TORCH if after and real in _paths_of(after) else LoadedBy.NOTHING

    def _why_unpredicted(self, opened: OpenedLibrary) -> str:
        failure, torch = self._prediction.processes.torch_failure, self._installation.torch
        if not failure or not opened.needs_torch or isinstance(torch, Unavailable):
            return ""
        is_of_torch = opened.library.path.startswith(torch.root + os.sep)
        return "" if is_of_torch else f"`import torch` comes first, and fails: {failure.words}"

    def _open(self, opened: OpenedLibrary, *, is_asked: bool) -> _Opening:
        processes, path = self._prediction.processes, opened.library.path
        process = self._prediction.process_of(opened)
        if self._loaded_by(opened) is LoadedBy.TORCH:
            return _Opening(process, _paths_of(processes.alone), None)
        before = _paths_of(process)
        if not is_asked:
            return _Opening(process, before, None)
        if processes.torch_failure and opened.module == "torch._C":
            return _Opening(process, before, self._prediction.complete(processes.torch_failure))
        after = process.copy()
        try:
            failure = after.open(path)
        except BinaryError as exc:
            words = f"{path}: {exc}"
            failure = LoadFailure(words=words, fault=LoadFault.FILE, file=path, name="", chain=(path,))
        if failure and failure.fault is LoadFault.SYMBOL:
            after.open(path, binding=Binding.NEVER)  # what it needs is loaded before symbols are looked up
        return _Opening(after, before, self._prediction.complete(failure) if failure else None)

    # --- what it needs -----------------------------------------------------------------------------------------

    def _describe_needed(self, name: str, path: str, opening: _Opening) -> NeededLibrary:
        found = _find(opening.process, name, path)
        # Where it came from is told of what is loaded; that it is loaded is not where it came from.
        entries = (each for each in opening.process.loaded if found and each.path == found.path)
        taken = next(entries, found)
        return NeededLibrary(
            name=name,
            taken=taken,
            is_already_loaded=bool(taken and os.path.realpath(taken.path) in opening.before),
            others=tuple(self._find_others(name, taken.path if taken else ""))[:_MOST_OTHERS],
        )

    def _find_others(self, name: str, taken: str) -> Iterator[str]:
        real = os.path.realpath(taken) if taken else ""
        yield from (path for path in self._names.find_files(name) if os.path.realpath(path) != real)

    def _find_missing_symbols(self, failure: LoadFailure | None) -> Iterator[MissingSymbol]:
        if failure is None or failure.fault is not LoadFault.SYMBOL:
            return
        for name in failure.undefined[:_MOST_SYMBOLS]:
            version = failure.symbol_version if name == failure.name else ""
            completed = self._prediction.holders.complete(replace(failure, name=name, symbol_version=version))
            yield MissingSymbol(name=name, written=demangle(name), holders=completed.holders)


def _paths_of(process: Process) -> frozenset[str]:
    return frozenset(os.path.realpath(loaded.path) for loaded in process.loaded)


def _find_loaded_path(path: str, process: Process) -> str:
    """Return the path by which the process knows a file: torch needs libraries as `torch/lib/../../nvidia/...`."""
    real = os.path.realpath(path)
    return next((loaded.path for loaded in process.loaded if os.path.realpath(loaded.path) == real), path)


def _find(process: Process, name: str, needed_by: str) -> LoadedLibrary | None:
    try:
        return process.find(name, needed_by)
    except BinaryError:  # the loader's words say so
        return None


def _find_brought(path: str, needed: tuple[NeededLibrary, ...], opening: _Opening) -> Iterator[LoadedLibrary]:
    told = {path, *(each.taken.path for each in needed if each.taken)}
    for loaded in opening.process.loaded:
        is_told = loaded.path in told or os.path.realpath(loaded.path) in opening.before
        if not is_told and _is_below(loaded.path, path, opening.process):
            yield loaded


def _is_below(path: str, top: str, process: Process) -> bool:
    """Tell whether a loaded file was first needed by *top*, or by what that needs."""
    needed_by = {loaded.path: loaded.needed_by for loaded in process.loaded}
    while path and path != top:
        path = needed_by.get(path, "")
    return bool(path)


# --- tables ------------------------------------------------------------------------------------------------------


def _read_table(path: str) -> _Table:
    try:
        with open_file(path) as reader:
            elf = parse_elf(reader)
            asked = tuple((each.file, as_text(each.name)) for each in SymbolTable(elf).needed_versions)
            return _Table(elf.soname, elf.rpath, elf.runpath, elf.needed, asked)
    except (OSError, BinaryError):  # the loader's words say so
        return _Table()


def _compare_versions(table: _Table, path: str, process: Process) -> Iterator[VersionNeed]:
    """Compare, for each file and family of versions, what is asked for with what is there."""
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file, version in table.versions:
        asked[file, _family_of(version)].append(version)
    for (file, family), versions in asked.items():
        provider = _find(process, file, path)
        image = process.look(provider.path) if provider else None
        there = [as_text(name) for name in (image.symbols.defined_versions or ())] if image else []
        yield VersionNeed(
            file=file,
            provider=provider.path if provider else "",
            asked=max(versions, key=_order_of),
            newest_there=max((each for each in there if _family_of(each) == family), key=_order_of, default=""),
            missing=tuple(sorted({*versions} - {*there}, key=_order_of)) if there else (),
        )


def _family_of(version: str) -> str:
    numbered = _FAMILY.match(version)
    return numbered[1] if numbered else version


def _order_of(version: str) -> tuple[int, ...]:
    numbered = _FAMILY.match(version)
    return tuple(map(int, numbered[2].split("."))) if numbered else ()
