"""What the dynamic loader will say to every library that a process of the environment opens, and why."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from envdoctor.binary.binding import as_text
from envdoctor.binary.link import Process
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_symbols import is_torch_symbol
from envdoctor.model.facts import Absence, Distribution, Environment, TorchBuild, Unavailable, Variable
from envdoctor.model.loading import (
    FailedLoad,
    ForeignModule,
    LoadedLibrary,
    Loader,
    LoadFailure,
    LoadFault,
    LoadWay,
    OverriddenLibrary,
)
from envdoctor.probes.abi_twins import AbiTwins
from envdoctor.probes.demangling import demangle_all
from envdoctor.probes.foreign_files import is_locked
from envdoctor.probes.import_chain import Chain, ImportChains
from envdoctor.probes.library_files import LibraryFiles
from envdoctor.probes.library_holders import Holders
from envdoctor.probes.library_owners import LibraryOwners
from envdoctor.probes.loader_process import Processes, start_processes
from envdoctor.probes.modules import OpenedLibrary, Selection, choose_variants, find_foreign_modules

_REQUIRES_TORCH = re.compile(r"\s*torch\b(?![-_.\w])(?!.*\bextra\b)", re.IGNORECASE)
_FROM_ELSEWHERE = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "ld.so.cache"})
_FILE_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)*)$")
_COMPARED = 1 << 20
_MOST_DEMANGLED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the other probes found out about the environment."""

    environment: Environment
    distributions: tuple[Distribution, ...]
    torch: TorchBuild | Unavailable
    libraries: LibraryFiles
    variables: tuple[Variable, ...]
    jit_libraries: tuple[str, ...] = ()  # that torch would import from its cache


def find_foreign(installation: Installation) -> tuple[ForeignModule, ...]:
    """Find the extension modules that only another interpreter would import."""
    owners = LibraryOwners(installation.distributions)
    chains = ImportChains(installation.environment)
    return tuple(find_foreign_modules(installation.environment, installation.libraries, owners, chains))


def find_loader(installation: Installation, kb: KnowledgeBase) -> Loader | Unavailable:
    """Predict what the loader says to torch, and to every library that is opened beside it."""
    processes = start_processes(installation.environment, installation.torch, installation.variables)
    if isinstance(processes, Unavailable):
        return processes
    return Prediction(installation, processes, kb).conclude()


@dataclass(frozen=True)
class Prediction:
    """One environment, and the processes that its libraries are opened in."""

    installation: Installation
    processes: Processes
    kb: KnowledgeBase
    _unreadable: list[str] = field(default_factory=list)
    _taken: dict[str, LoadedLibrary] = field(default_factory=dict)  # from elsewhere, by path

    def conclude(self) -> Loader:
        """Ask for everything."""
        torch_failure = self.processes.torch_failure
        of_torch = self._torch_process
        self._note((*self.processes.alone.loaded, *of_torch))
        opened = [each for each in self.selection.find_opened() if self._is_asked(each)]
        failures = [(each, failure) for each in opened if (failure := self._open(each))]
        if torch_failure:
            self._note(self._find_needed(torch_failure))
        return Loader(
            library_path=self.processes.library_path,
            preload=self.processes.preload,
            glibc=self.processes.glibc,
            torch=self.complete(torch_failure) if torch_failure else None,
            torch_process=of_torch,
            overridden=tuple(self._find_overridden()),
            asked=len(opened),
            failed=tuple(self.describe(each, failure) for each, failure in failures),
            unreadable=(*self._find_locked_folders(), *self._unreadable),
        )

    @property
    def _torch_process(self) -> tuple[LoadedLibrary, ...]:
        after = self.processes.after_torch
        return after.loaded[len(self.processes.alone.loaded) :] if after else ()

    @cached_property
    def selection(self) -> Selection:
        """The choice among the libraries of the environment."""
        found, torch = self.installation.libraries, self.installation.torch
        variants = choose_variants(found, self.installation.distributions, torch, self.installation.variables)
        environment, jit_libraries = self.installation.environment, self.installation.jit_libraries
        return Selection(environment, torch, found, variants, self.processes.alone, self.kb, jit_libraries)

    # --- asking ------------------------------------------------------------------------------------------------

    def _is_asked(self, opened: OpenedLibrary) -> bool:
        """Leave out what cannot be told."""
        torch = self.installation.torch
        if is_locked(opened.library.path):
            self._unreadable.append(f"{opened.library.path}: Permission denied")
            return False
        has_no_torch = isinstance(torch, Unavailable) and torch.absence is Absence.NOT_APPLICABLE
        if self.processes.after_torch or has_no_torch or not self._comes_after_torch(opened):
            return True
        if isinstance(torch, Unavailable):
            self._unreadable.append(f"{opened.library.path}: {torch.reason}")
        return False  # where `import torch` fails, that is all that anybody sees

    def _find_locked_folders(self) -> Iterator[str]:
        """Yield the folders of the environment that this user cannot list: what is in them is not known."""
        for library in self.installation.libraries.libraries:
            if os.path.isdir(library.path) and is_locked(library.path):
                yield f"{library.path}: Permission denied"

    def _open(self, opened: OpenedLibrary) -> LoadFailure | None:
        process = self.process_of(opened).copy()
        known = len(process.loaded)
        try:
            failure = process.open(opened.library.path)
        except (OSError, BinaryError) as exc:
            self._unreadable.append(f"{opened.library.path}: {exc}")
            return None
        self._note(self._find_needed(failure) if failure else process.loaded[known:])
        return failure

    def process_of(self, opened: OpenedLibrary) -> Process:
        """Return the process that a library is opened in."""
        after = self.processes.after_torch
        return after if after and self._comes_after_torch(opened) else self.processes.alone

    def _comes_after_torch(self, opened: OpenedLibrary) -> bool:
        # cuDNN opens its parts itself, in the process of torch.
        return (
            opened.needs_torch
            or opened.library.place.startswith("nvidia/")
            or self._owner(opened) in self._torch_users
            or (self.processes.torch_is_global and self._uses_symbols_of_torch(opened.library.path))
        )

    def _uses_symbols_of_torch(self, path: str) -> bool:
        """Tell it of extensions that are not linked to libraries of torch: up to 1.4 none was."""
        try:
            image = self.processes.alone.look(path)
            references = image.symbols.read_references(with_weak=False) if image else []
        except BinaryError:  # opening it says so
            return False
        return any(is_torch_symbol(as_text(reference.name)) for reference in references)

    @cached_property
    def _torch_users(self) -> frozenset[str]:
        distributions = self.installation.distributions
        return frozenset(each.name for each in distributions if any(map(_REQUIRES_TORCH.match, each.requires)))

    def _owner(self, opened: OpenedLibrary) -> str:
        return "" if opened.is_cached else self.owners.owner_of(opened.library)

    @cached_property
    def owners(self) -> LibraryOwners:
        """The distributions, asked for their libraries."""
        return LibraryOwners(self.installation.distributions)

    # --- what is taken from elsewhere --------------------------------------------------------------------------

    def _note(self, loaded: Iterable[LoadedLibrary]) -> None:
        for library in loaded:
            found_through = "LD_PRELOAD" if library.name in self.processes.preload else library.found_through
            if found_through in _FROM_ELSEWHERE:
                self._taken.setdefault(library.path, replace(library, found_through=found_through))

    def _find_needed(self, failure: LoadFailure) -> Iterator[LoadedLibrary]:
        """Find where the libraries come from that a failing one needs."""
        process = self.processes.after_torch or self.processes.alone
        for path in failure.chain:
            try:
                image = process.look(path)
                found = [process.find(name, path) for name in image.elf.needed] if image else []
            except BinaryError:  # the failure itself says so
                continue
            yield from filter(None, found)

    def _find_overridden(self) -> Iterator[OverriddenLibrary]:
        for taken in self._taken.values():
            own = self.holders.find_own(os.path.basename(taken.name))
            if own and not _is_same_file(own, taken.path):
                yield OverriddenLibrary(
                    taken=taken,
                    own=own,
                    taken_version=_version_of(taken.path),
                    own_version=_version_of(own) or self._version_of_wheel(own),
                    same_content=_beginning_of(own) == _beginning_of(taken.path),
                )

    def _version_of_wheel(self, path: str) -> str:
        """Return the version of the nvidia-* distribution that a library belongs to: its files have no longer names."""
        library = next((each for each in self.installation.libraries.libraries if each.path == path), None)
        owner = self.owners.owner_of(library) if library else ""
        versions = (each.version for each in self.installation.distributions if each.name == owner)
        version = next(versions, "") if owner.startswith("nvidia-") else ""
        return version if isinstance(version, str) else ""

    # --- describing --------------------------------------------------------------------------------------------

    def describe(self, opened: OpenedLibrary, failure: LoadFailure) -> FailedLoad:
        """Say how a library comes to be opened, and what there is to its failure."""
        owner = self._owner(opened)
        names = self.owners.import_names(owner)
        chain = self.chains.find(opened.module, opened.library.path, names) if opened.module else Chain((), ())
        return FailedLoad(
            library=opened.library.path,
            module=opened.module,
            distribution=owner,
            needs_torch=opened.needs_torch,
            after_torch=self.process_of(opened) is self.processes.after_torch,
            way=self._way_of(opened, names, chain),
            import_chain=chain.statements,
            preloads=chain.preloads,
            failure=self.complete(failure),
        )

    def _way_of(self, opened: OpenedLibrary, names: tuple[str, ...], chain: Chain) -> LoadWay:
        if opened.is_lazy:
            return LoadWay.LAZY
        if opened.is_cached:
            return LoadWay.CACHED
        # A distribution of nothing but modules is imported by their names: pointnet2_cuda, DCNv2's _ext.
        is_itself = opened.module in names and all(self.chains.is_extension_module(name) for name in names)
        return LoadWay.WITH_PACKAGE if chain.statements or is_itself else LoadWay.PERHAPS

    @cached_property
    def chains(self) -> ImportChains:
        """The sources of the environment, asked for what they import."""
        return ImportChains(self.installation.environment)

    def complete(self, failure: LoadFailure) -> LoadFailure:
        """Add what files tell about a failure."""
        others = [name for name in failure.undefined if name != failure.name]
        if failure.fault is LoadFault.SYMBOL:
            demangled = demangle_all([failure.name, *others[: _MOST_DEMANGLED - 1]])
            failure = replace(failure, demangled=demangled, other_abi=self._abi_twins.find(failure.name))
        return self.holders.complete(failure)

    @cached_property
    def _abi_twins(self) -> AbiTwins:
        torch = self.installation.torch
        return AbiTwins(() if isinstance(torch, Unavailable) else torch.libraries)

    @cached_property
    def holders(self) -> Holders:
        """The files that may have what others lack."""
        found = self.installation
        return Holders(found.environment, found.torch, found.libraries, found.variables)


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _version_of(path: str) -> str:
    """Read the version from the name behind the links, "" where that has no more than the name that is asked for."""
    real = _FILE_VERSION.search(os.path.realpath(path))
    return real[1] if real and os.path.basename(os.path.realpath(path)) != os.path.basename(path) else ""


def _beginning_of(path: str) -> tuple[int, bytes] | None:
    try:
        with open_file(path) as reader:
            return reader.size, reader.peek(0, _COMPARED)
    except (OSError, BinaryError):
        return None
