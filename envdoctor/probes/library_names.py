"""Which libraries people mean: by path, by file name, by the name of a module, a package or a distribution."""

import difflib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from envdoctor.binary.reader import BinaryError
from envdoctor.errors import UnknownLibraryError
from envdoctor.model.facts import Unavailable
from envdoctor.probes.distributions import normalise
from envdoctor.probes.import_chain import Located
from envdoctor.probes.library_files import Library
from envdoctor.probes.loader import Prediction
from envdoctor.probes.modules import OpenedLibrary

_SHOWN_NAMES = 5


@dataclass(frozen=True)
class LibraryNames:
    """The names of all libraries that processes of an environment can load."""

    prediction: Prediction

    def find(self, asked: str) -> tuple[OpenedLibrary, ...]:
        """Find the libraries that *asked* may mean: of several files of a name the one first that would be loaded.

        Raises:
            UnknownLibraryError: nothing goes by that name; the message lists names that are near.

        """
        if os.sep in asked:
            return (self._open_path(asked),)
        ways: tuple[Callable[[str], Iterable[Library]], ...] = (
            self._find_by_file_name,
            self._find_by_module,
            self._find_by_place,
            self._find_by_stem,
            self._find_by_distribution,
        )
        found = next(filter(None, (tuple(_distinct(way(asked))) for way in ways)), ())
        if not found:
            raise UnknownLibraryError(self._describe_absence(asked))
        return tuple(map(self._open, found))

    def find_files(self, name: str) -> Iterator[str]:
        """Find all files of a name, each once: on LD_LIBRARY_PATH, in the environment, and in the system."""
        folders = self.prediction.processes.library_path
        on_path = (path for folder in folders if os.path.isfile(path := os.path.join(folder or ".", name)))
        seen = set()
        for path in (*on_path, *self.prediction.holders.find(name)):
            if (real := os.path.realpath(path)) not in seen:
                seen.add(real)
                yield path

    # --- what a name means -------------------------------------------------------------------------------------

    def _open_path(self, asked: str) -> OpenedLibrary:
        path = os.path.abspath(asked)
        if not os.path.isfile(path):
            what = "is not a file" if os.path.exists(path) else "does not exist"
            raise UnknownLibraryError(f"`{asked}` {what}")
        return self._open(self._library_at(path))

    def _find_by_file_name(self, asked: str) -> Iterator[Library]:
        if ".so" not in asked:
            return
        process = self.prediction.processes.after_torch or self.prediction.processes.alone
        try:
            loaded = process.find(asked, "")
        except BinaryError:  # it is there, and damaged: the search by name finds it
            loaded = None
        if loaded and os.path.isabs(loaded.path):
            yield self._library_at(loaded.path)
        yield from (library for library in self._libraries if os.path.basename(library.path) == asked)
        yield from map(self._library_at, self.find_files(asked))

    def _find_by_module(self, asked: str) -> Iterator[Library]:
        located = self._locate(asked)
        if located is None:
            return
        if _is_compiled(located):
            yield self._library_at(located.path)
        if not located.folder:
            return
        if (core := self._locate(f"{asked}._C")) and _is_compiled(core):  # that of torch is opened by torch alone
            yield self._library_at(core.path)
        # What a package is imported with comes before what it may open later.
        inside = [library for library in self._libraries if library.path.startswith(located.folder + os.sep)]
        opened = [self._opened[library.path] for library in inside if library.path in self._opened]
        yield from (each.library for each in sorted(opened, key=lambda each: not self._is_certain(each)))
        yield from () if opened or core else inside

    def _locate(self, module: str) -> Located | None:
        return self.prediction.chains.locate(module) if all(map(str.isidentifier, module.split("."))) else None

    def _find_by_place(self, asked: str) -> Iterator[Library]:
        """Find a module that the interpreter passes over: it was compiled for another one."""
        for library in self._libraries:
            folder, _, name = library.place.rpartition(os.sep)
            if library.root and ".".join((*folder.split(os.sep), name.partition(".")[0])) == asked:
                yield library

    def _find_by_stem(self, asked: str) -> Iterator[Library]:
        for library in self._libraries:
            stem = os.path.basename(library.path).partition(".")[0]
            if stem in {asked, f"lib{asked}"}:
                yield library

    def _find_by_distribution(self, asked: str) -> Iterator[Library]:
        for name in self.prediction.owners.import_names(normalise(asked)):
            yield from self._find_by_module(name)

    def _is_certain(self, opened: OpenedLibrary) -> bool:
        if not opened.module:
            return False
        names = self.prediction.owners.import_names(self.prediction.owners.owner_of(opened.library))
        return bool(self.prediction.chains.find(opened.module, opened.library.path, names).statements)

    # --- all of them -------------------------------------------------------------------------------------------

    @cached_property
    def _libraries(self) -> tuple[Library, ...]:
        found, compiled = self.prediction.installation.libraries, self.prediction.installation.jit_libraries
        return (*found.libraries, *found.foreign, *(Library(path, "", path) for path in compiled))

    @cached_property
    def _opened(self) -> dict[str, OpenedLibrary]:
        return {each.library.path: each for each in self.prediction.selection.find_opened()}

    def _library_at(self, path: str) -> Library:
        real = os.path.realpath(path)
        same = (each for each in self._libraries if each.path == path or os.path.realpath(each.path) == real)
        return next(same, Library(path, "", path))

    def _open(self, library: Library) -> OpenedLibrary:
        """Say how a library is opened, also one that no process opens by itself."""
        if known := self._opened.get(library.path):
            return known
        return OpenedLibrary(library, self._module_of(library), is_lazy=False, needs_torch=self._needs_torch(library))

    def _module_of(self, library: Library) -> str:
        """Name the module that a library of torch is."""
        folder, _, name = library.place.rpartition(os.sep)
        parts = (*folder.split(os.sep), name.partition(".")[0])
        if not library.root or name.startswith("lib") or not all(map(str.isidentifier, parts)):
            return ""
        located = self.prediction.chains.locate(".".join(parts))
        return ".".join(parts) if located and located.path == library.path else ""

    def _needs_torch(self, library: Library) -> bool:
        after_torch = self.prediction.processes.after_torch
        real = os.path.realpath(library.path)
        if after_torch and any(os.path.realpath(loaded.path) == real for loaded in after_torch.loaded):
            return True
        torch = self.prediction.installation.torch
        if not isinstance(torch, Unavailable) and library.path.startswith(torch.root + os.sep):
            return True
        try:
            image = self.prediction.processes.alone.look(library.path)
            return image is not None and any(map(self.prediction.selection.needs_torch, image.elf.needed))
        except BinaryError:  # what is wrong with it is part of its story
            return False

    # --- what nothing means ------------------------------------------------------------------------------------

    def _describe_absence(self, asked: str) -> str:
        if located := self._locate(asked):
            return f"`{asked}` is `{located.path or located.folder}`, and has no compiled library"
        near = self._find_siblings(asked) or difflib.get_close_matches(asked, self._all_names, _SHOWN_NAMES, cutoff=0.5)
        hint = f"; near names are {', '.join(f'`{name}`' for name in near)}" if near else ""
        where = self.prediction.installation.environment.prefix
        return f"no library or module of the environment {where} is called `{asked}`{hint}"

    def _find_siblings(self, asked: str) -> list[str]:
        """Name the compiled modules of the package that a module was looked for in, the nearest first."""
        package = self._locate(asked.rpartition(".")[0])
        if package is None or not package.folder:
            return []
        inside = (each for each in self._libraries if each.path.startswith(package.folder + os.sep))
        return difflib.get_close_matches(asked, filter(None, map(self._module_of, inside)), _SHOWN_NAMES, cutoff=0)

    @property
    def _all_names(self) -> Iterable[str]:
        files = (os.path.basename(library.path) for library in self._libraries)
        modules = tuple(each.module for each in self._opened.values() if each.module)
        folders = (library.place.partition(os.sep)[0] for library in self._libraries if library.root)
        tops = dict.fromkeys((*(module.partition(".")[0] for module in modules), *folders))
        return dict.fromkeys((*files, *modules, *filter(self._locate, tops)))


def _distinct(libraries: Iterable[Library]) -> Iterator[Library]:
    """Take every file once, by its first name."""
    seen = set()
    for library in libraries:
        if (real := os.path.realpath(library.path)) not in seen:
            seen.add(real)
            yield library


def _is_compiled(located: Located) -> bool:
    return bool(located.path) and not located.path.endswith(".py")
