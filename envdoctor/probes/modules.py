"""Which libraries of an environment a process opens: extension modules, and those that packages open by name."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from envdoctor.binary.link import Process
from envdoctor.binary.reader import BinaryError
from envdoctor.binary.symbols import SymbolTable
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.tables import LoadEffect
from envdoctor.model import bitsandbytes
from envdoctor.model.facts import Distribution, Environment, TorchBuild, Unavailable, Variable
from envdoctor.model.loading import ForeignModule
from envdoctor.probes.import_chain import ImportChains
from envdoctor.probes.libraries import is_of_nvidia
from envdoctor.probes.library_files import TAGGED_MODULE, Library, LibraryFiles
from envdoctor.probes.library_owners import LibraryOwners

# Before 1.5 also libcaffe2*.so.
_OF_TORCH = re.compile(r"lib(torch|c10|caffe2|shm)(_\w+)?\.so")
_NVIDIA_FOLDER = "nvidia"
_BUNDLED = ".libs"  # what auditwheel puts beside a package: loaded when something needs it, never by name

_INIT_FUNCTIONS = ("PyInit_", "PyModExport_")  # PEP 489, PEP 793
_INIT_FUNCTIONS_OF_PYTHON_2 = ("init",)


class OpenedLibrary(NamedTuple):
    """A library that a process of the environment opens at some time."""

    library: Library
    module: str  # the name it is imported by, "" for what is opened by path
    is_lazy: bool
    needs_torch: bool  # it, or a library of the environment that it needs, needs libraries of torch
    is_cached: bool = False  # torch compiled it, and keeps it outside of the environment


class _Head(NamedTuple):
    """What the tables of a library say."""

    needed: tuple[str, ...]
    stem: str  # the name of the module that it is, "" for any other library


@dataclass(frozen=True)
class Selection:
    """The choice among all libraries that lie in an environment."""

    environment: Environment
    torch: TorchBuild | Unavailable
    found: LibraryFiles
    variants: bitsandbytes.Choice | None
    process: Process
    kb: KnowledgeBase
    jit_libraries: tuple[str, ...] = ()
    _torch_needs: dict[str, bool] = field(default_factory=dict)

    def find_opened(self) -> Iterator[OpenedLibrary]:
        """Find the libraries that are opened, in the order of the walk."""
        for library in self.found.libraries:
            if _BUNDLED + os.sep not in library.place and (opened := self._judge(library)):
                yield opened
        for path in self.jit_libraries:
            stem = os.path.basename(path).removesuffix(".so")
            yield OpenedLibrary(Library(path, "", path), stem, is_lazy=False, needs_torch=True, is_cached=True)

    def _is_loaded_by_others(self, library: Library) -> bool:
        """Tell what `import torch` loads, and what is loaded because something needs it."""
        of_nvidia = is_of_nvidia(library) or library.place.startswith(_NVIDIA_FOLDER + os.sep)
        return of_nvidia or self._is_part_of_torch(library)

    def _is_part_of_torch(self, library: Library) -> bool:
        if isinstance(self.torch, Unavailable):
            return False
        return library.path in self._torch_libraries or library.path.startswith(self.torch.root + os.sep)

    @cached_property
    def _torch_libraries(self) -> frozenset[str]:
        return frozenset() if isinstance(self.torch, Unavailable) else frozenset(self.torch.libraries)

    def _judge(self, library: Library) -> OpenedLibrary | None:
        row = self.kb.load_effect(library.place)
        effect = row.effect if row else None
        if effect is LoadEffect.VARIANT and not (self.variants and self.variants.loads(library.path)):
            return None
        is_lazy = effect is LoadEffect.LAZY
        if not is_lazy and self._is_loaded_by_others(library):
            return None
        stems = self._stems(library)
        head = self._read_head(library.path, stems)
        if head is None:
            return self._judge_by_name(library, stems, is_lazy=is_lazy)
        if not head.stem and not row and not any(map(_OF_TORCH.match, head.needed)):
            return None
        needs_torch = any(map(self.needs_torch, head.needed))
        return OpenedLibrary(library, _module_name(library, head.stem), is_lazy, needs_torch)

    def _judge_by_name(self, library: Library, stems: tuple[str, ...], *, is_lazy: bool) -> OpenedLibrary | None:
        """Take a file that cannot be read for the module that its name fits."""
        module = _module_name(library, stems[0]) if stems and not stems[0].startswith("lib") else ""
        return OpenedLibrary(library, module, is_lazy, needs_torch=False) if module or is_lazy else None

    def _stems(self, library: Library) -> tuple[str, ...]:
        """Return the names of the module that a file may be, by the suffixes of the interpreter, longest first."""
        name = os.path.basename(library.path)
        suffixes = sorted(self.environment.extension_suffixes, key=len, reverse=True)
        return tuple(name.removesuffix(suffix) for suffix in suffixes if name.endswith(suffix))

    def needs_torch(self, name: str) -> bool:
        """Tell whether a needed library is one of torch, or is one of the environment that needs such."""
        waiting, reached = [name], {name}
        while waiting:
            each = waiting.pop()
            if _OF_TORCH.match(each) or self._torch_needs.get(each):
                self._torch_needs[name] = True
                return True
            following = () if each in self._torch_needs else self._read_needed(each)
            waiting += (below for below in following if below not in reached)
            reached.update(following)
        self._torch_needs.update(dict.fromkeys(reached, False))
        return False

    def _read_needed(self, name: str) -> tuple[str, ...]:
        path = self._own_libraries.get(name)
        head = self._read_head(path, ()) if path else None
        return head.needed if head else ()  # one of the system; or a damaged one, which is said where it is loaded

    def _read_head(self, path: str, stems: tuple[str, ...]) -> _Head | None:
        """Read what a library needs, and which of these names it is a module of; None when that cannot be read."""
        try:
            image = self.process.look(path)
            if image is None:
                return None
            return _Head(image.elf.needed, next((stem for stem in stems if self._is_module(image.symbols, stem)), ""))
        except BinaryError:
            return None

    def _is_module(self, symbols: SymbolTable, stem: str) -> bool:
        names = (f"{function}{stem}".encode() for function in self._init_functions)
        return any(symbols.may_define(name) for name in names)

    @cached_property
    def _init_functions(self) -> tuple[str, ...]:
        version = self.environment.python_version
        return _INIT_FUNCTIONS_OF_PYTHON_2 if isinstance(version, tuple) and version[:1] == (2,) else _INIT_FUNCTIONS

    @cached_property
    def _own_libraries(self) -> dict[str, str]:
        return {
            os.path.basename(library.path): library.path
            for library in self.found.libraries
            if not is_of_nvidia(library)
        }


def choose_variants(
    found: LibraryFiles,
    distributions: tuple[Distribution, ...],
    torch: TorchBuild | Unavailable,
    variables: tuple[Variable, ...],
) -> bitsandbytes.Choice | None:
    """Tell which of its libraries bitsandbytes loads; None where it is not installed, or nobody can tell."""
    installed = (one for one in distributions if one.name == bitsandbytes.DISTRIBUTION and not one.shadowed_by)
    version = next((one.version for one in installed), None)
    paths = (library.path for library in found.libraries)
    return bitsandbytes.choose(paths, None if isinstance(torch, Unavailable) else torch, version, variables)


def _module_name(library: Library, stem: str) -> str:
    """Name the module as `import` would, "" where no statement can: for want of a name, or with folders like `a-b`."""
    parts = (*library.place.split(os.sep)[:-1], stem)
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""


# --- modules for other interpreters ------------------------------------------------------------------------------


def find_foreign_modules(
    environment: Environment, found: LibraryFiles, owners: LibraryOwners, chains: ImportChains
) -> Iterator[ForeignModule]:
    """Find the modules that the interpreter passes over, and has no other of the same name for."""
    equipped = _find_equipped(environment, found, owners) if found.foreign else {""}
    for library in found.foreign:
        name = os.path.basename(library.path)
        tag = TAGGED_MODULE.search(name)
        stem = name[: tag.start()] if tag else name
        module = _module_name(library, stem)
        if tag is None or not module or _has_twin(environment, library, stem):
            continue
        owner = owners.owner_of(library)
        yield ForeignModule(
            library=library.path,
            module=module,
            tag=os.path.splitext(tag[0])[0].removeprefix("."),
            distribution=owner,
            import_chain=chains.find(module, library.path, owners.import_names(owner)).statements,
            has_siblings=owner in equipped,
        )


def _find_equipped(environment: Environment, found: LibraryFiles, owners: LibraryOwners) -> set[str]:
    """Name the distributions with libraries that the interpreter can import, and "" for what none owns."""
    roots = {library.root for library in found.foreign}
    beside = (
        library for library in found.libraries if library.root in roots and _BUNDLED + os.sep not in library.place
    )
    return {"", *(owners.owner_of(each) for each in beside if each.path.endswith(environment.extension_suffixes))}


def _has_twin(environment: Environment, library: Library, stem: str) -> bool:
    beside = os.path.join(os.path.dirname(library.path), stem)
    suffixes = (*environment.extension_suffixes, ".py", "/__init__.py")
    return any(os.path.isfile(beside + suffix) for suffix in suffixes)
