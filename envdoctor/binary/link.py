"""A process of glibc, emulated from files: what is loaded, and what dlopen would say to the next library.

Nothing is loaded and nothing runs. The order of everything is glibc's: the search for needed libraries and the
breadth-first list of what is loaded (elf/dl-load.c, dl-deps.c), the check of versions (dl-version.c), the order in
which libraries are relocated (dl-sort-maps.c) and their symbols looked up (dl-lookup.c). Not told: whether the room
for thread-local variables of libraries suffices, what constructors do, filters (DT_FILTER, DT_AUXILIARY), and tables
that are damaged inside, which the loader believes.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from envdoctor.binary import elf as layout
from envdoctor.binary.binding import Binding, Lookup, Providers, as_text
from envdoctor.binary.library_search import Folder, SearchRules, expand, expand_folders, find_cached, split_search_path
from envdoctor.binary.link_map import LinkMap, LinkState, make_link_map
from envdoctor.binary.loadable import LibraryImage, Refusal, judge_mapping, needs_executable_stack, read_interpreter
from envdoctor.binary.loader_world import Damaged, Files, Found, Search, World, say
from envdoctor.binary.reader import BinaryError
from envdoctor.binary.relocation_order import sort_by_dependency
from envdoctor.model.loading import LoadedLibrary, LoadFailure, LoadFault

_CHECKS_RELR = (2, 36)
_MOST_UNDEFINED = 200


class Process:
    """An emulated process; `copy` it to predict several things from the same state."""

    def __init__(self, loader: "_Loader", state: LinkState) -> None:
        self._loader = loader
        self._state = state

    def copy(self) -> "Process":
        """Make a process that goes on from here by itself."""
        return Process(self._loader, self._state.copy())

    @property
    def loaded(self) -> tuple[LoadedLibrary, ...]:
        """What is loaded, the program first, in the loader's order."""
        return tuple(loaded.library for loaded in self._state.maps)

    def open(self, path: str, *, is_global: bool = False, binding: Binding = Binding.NOW) -> LoadFailure | None:
        """Load a library as `dlopen(path, RTLD_NOW)` does; after a failure everything is as it was.

        Raises:
            BinaryError: a file is damaged in a way that the loader does not look for, and that makes it crash.

        """
        before = self._state.copy()
        try:
            self._loader.open(self._state, path, is_global=is_global, binding=binding)
        except _RefusedError as refused:
            self._state = before
            return refused.failure
        except BinaryError:
            self._state = before
            raise
        return None

    def find(self, name: str, needed_by: str) -> LoadedLibrary | None:
        """Find the file that a needed library would come from; None where there is none that can be loaded.

        Raises:
            BinaryError: see `open`.

        """
        if loaded := self._state.by_name.get(name):
            return replace(loaded.library, name=name, found_through="already loaded", folder="", needed_by=needed_by)
        return self._loader.find(self._state, name, needed_by)

    def look(self, path: str) -> LibraryImage | None:
        """Read a library as the loader does; None for what it refuses by its headers.

        Raises:
            BinaryError: see `open`.

        """
        outcome = self._loader.world.look(path)
        return outcome if isinstance(outcome, LibraryImage) else None


def start_process(files: Files, rules: SearchRules, executable: str, preload: tuple[str, ...]) -> Process | LoadFailure:
    """Start a program, as far as the loader does it before the program's own first instruction.

    Symbols of the program and of what it needs are not looked up: most are bound when they are first used.

    Raises:
        BinaryError: a file is damaged in a way that the loader does not look for.

    """
    world = World(files, rules)
    outcome = world.look(executable)
    if not isinstance(outcome, LibraryImage):
        refusal = outcome if isinstance(outcome, Refusal) else Refusal(os.strerror(outcome))
        return _fault_of_file(say(executable, refusal), (executable,))
    main = make_link_map(executable, Found(outcome, executable, "program", ""), None)
    loader = _Loader(world, main)
    try:
        return Process(loader, loader.start(preload))
    except _RefusedError as refused:
        words = f"{executable}: error while loading shared libraries: {refused.failure.words}"
        return replace(refused.failure, words=words)


class _RefusedError(Exception):
    """The loader gives up."""

    def __init__(self, failure: LoadFailure) -> None:
        super().__init__(failure.words)
        self.failure = failure


@dataclass(frozen=True)
class _Loader:
    """What the loader does to the state of a process of one program."""

    world: World
    main: LinkMap
    providers: Providers = field(default_factory=Providers)

    @property
    def rules(self) -> SearchRules:
        """The rules of the machine."""
        return self.world.rules

    # --- starting and opening ----------------------------------------------------------------------------------

    def start(self, preload: tuple[str, ...]) -> LinkState:
        """Load the program, what is preloaded, and what they need."""
        # The program itself is known by no name.
        state = LinkState(maps={self.main: None}, global_scope={}, by_name={"": self.main})
        interpreter = read_interpreter(self.main.image.elf)
        found = self.world.look(interpreter)
        if isinstance(found, LibraryImage):
            # The loader itself is there before anybody needs it, and listed when somebody does.
            itself = make_link_map(interpreter, Found(found, interpreter, "program", ""), self.main)
            state.by_name |= {interpreter: itself, found.elf.soname: itself}
        preloaded = [loaded for name in preload if (loaded := self._preload(state, name))]
        scope = self._load_needed(state, list(dict.fromkeys((self.main, *preloaded))))
        for loaded in scope:
            self._check_versions(state, loaded)
        state.scopes[self.main] = scope
        state.global_scope = dict.fromkeys(scope)
        return state

    def _preload(self, state: LinkState, name: str) -> LinkMap | None:
        try:
            return self._map(state, name, self.main)
        except _RefusedError:  # the loader says so, and goes on
            return None

    def open(self, state: LinkState, path: str, *, is_global: bool, binding: Binding) -> None:
        """Load a library and what it needs."""
        known = set(state.maps)
        root = self._map(state, path, None)
        if root not in state.scopes:
            scope = self._load_needed(state, [root])
            new = [loaded for loaded in scope if loaded not in known]
            for loaded in new:
                self._check_versions(state, loaded)
            if new and binding is not Binding.NEVER:
                self._bind(state, scope, frozenset(new), binding)
            state.scopes[root] = scope
        if is_global:
            state.global_scope |= dict.fromkeys(state.scopes[root])

    # --- mapping -----------------------------------------------------------------------------------------------

    def _load_needed(self, state: LinkState, scope: list[LinkMap]) -> list[LinkMap]:
        """Load what is needed, breadth first (`_dl_map_object_deps`)."""
        listed = set(scope)
        for loader in scope:  # it grows
            needed = state.needed.get(loader)
            if needed is None:
                # A name may begin with $ORIGIN; the loader puts the folder in its place before anything else.
                names = (expand(name, loader.origin, self.rules) or name for name in loader.image.elf.needed)
                needed = state.needed[loader] = [self._map(state, name, loader) for name in names]
            for loaded in needed:
                if loaded not in listed:
                    listed.add(loaded)
                    scope.append(loaded)
        return scope

    def _map(self, state: LinkState, name: str, loader: LinkMap | None) -> LinkMap:
        if loaded := state.by_name.get(name):
            state.maps.setdefault(loaded)
            return loaded
        search = Search(self.world, name)
        found = self._search(search, loader)
        if not isinstance(found, Found):
            raise _RefusedError(_describe_search(found, search, loader))
        if loaded := state.by_identity.get(found.image.identity):
            state.by_name.setdefault(name, loaded)
            return loaded
        loaded = make_link_map(name, found, loader)
        stack_is_executable = needs_executable_stack(self.main.image.elf)
        if refusal := judge_mapping(found.image, self.rules.glibc, stack_is_executable=stack_is_executable):
            raise _RefusedError(_fault_of_file(say(name, refusal), loaded.chain))
        state.add(loaded)
        return loaded

    def find(self, state: LinkState, name: str, needed_by: str) -> LoadedLibrary | None:
        """Search for a library that a file needs which is not loaded under its name."""
        loader = next((loaded for loaded in state.maps if loaded.path == needed_by), None)
        if loader is None and isinstance(image := self.world.look(needed_by), LibraryImage):
            loader = make_link_map(needed_by, Found(image, needed_by, "path", ""), None)
        found = self._search(Search(self.world, name), loader)
        return make_link_map(name, found, loader).library if isinstance(found, Found) else None

    def _search(self, search: Search, loader: LinkMap | None) -> Found | Damaged | None:
        """Search where `_dl_map_object` does."""
        if "/" in search.name:
            path = expand(search.name, loader.origin, self.rules) if loader else search.name
            return search.try_path(path, "path", "")
        for folders in self._search_path(loader):
            if found := search.try_folders(folders):
                return found
        if loader and loader.image.flags_1 & layout.FLAG_1_NO_DEFAULT_FOLDERS:
            return None
        cached = find_cached(search.name, self.rules)
        if cached and (found := search.try_path(cached, "ld.so.cache", "")):
            return found
        return search.try_folders(Folder(folder, "default") for folder in self.rules.default_folders)

    def _search_path(self, loader: LinkMap | None) -> Iterator[tuple[Folder, ...]]:
        if loader is None or not loader.image.has_runpath:
            above = loader
            while above:
                yield split_search_path(above.image.rpath, "RPATH", above.origin, self.rules)
                above = above.loader
            yield split_search_path(self.main.image.rpath, "RPATH", self.main.origin, self.rules)
        yield expand_folders(self.rules.library_path, "LD_LIBRARY_PATH", self.main.origin, self.rules)
        if loader and loader.image.has_runpath:
            yield split_search_path(loader.image.elf.runpath, "RUNPATH", loader.origin, self.rules)

    # --- versions and symbols ----------------------------------------------------------------------------------

    def _check_versions(self, state: LinkState, loaded: LinkMap) -> None:
        """Check that there is every version that is asked for (`_dl_check_map_versions`)."""
        for needed in loaded.image.symbols.needed_versions:
            provider = state.by_name.get(needed.file)
            name = as_text(needed.name)
            if provider is None:
                words = "Inconsistency detected by ld.so: dl-version.c: Assertion `needed != NULL' failed!"
                raise _RefusedError(_fault_of_version(words, loaded, name, None))
            defined = provider.image.symbols.defined_versions
            if defined is not None and defined.get(needed.name) != needed.hash_value and not needed.is_weak:
                words = f"{provider.path}: version `{name}' not found (required by {loaded.path})"
                raise _RefusedError(_fault_of_version(words, loaded, name, provider))
        if self.rules.glibc >= _CHECKS_RELR and loaded.image.lacks_relr_version:
            words = f"{loaded.path}: DT_RELR without GLIBC_ABI_DT_RELR dependency"
            raise _RefusedError(_fault_of_version(words, loaded, "GLIBC_ABI_DT_RELR", None))

    def _bind(self, state: LinkState, scope: list[LinkMap], new: frozenset[LinkMap], binding: Binding) -> None:
        searched = list(dict.fromkeys((*state.global_scope, *scope)))
        lookup = Lookup(searched, state.by_name, self.providers, self.rules.glibc)
        for loaded in reversed(sort_by_dependency(scope, state.needed, self.rules.glibc)):
            if loaded in new and (undefined := lookup.find_undefined(loaded.image, binding)):
                first = undefined[0]
                provider = state.by_name.get(first.version.file) if first.version else None
                names = tuple(as_text(reference.name) for reference in undefined[:_MOST_UNDEFINED])
                failure = LoadFailure(
                    words=f"{loaded.path}: {lookup.complain(first)}",
                    fault=LoadFault.SYMBOL,
                    file=loaded.path,
                    name=names[0],
                    symbol_version=as_text(first.version.name) if first.version else "",
                    provider=provider.library if provider else None,
                    chain=loaded.chain,
                    undefined=names,
                )
                raise _RefusedError(failure)


def _describe_search(found: Damaged | None, search: Search, loader: LinkMap | None) -> LoadFailure:
    chain = loader.chain if loader else ()
    if found:
        return _fault_of_file(found.words, (*chain, found.path))
    if search.met_other_class:
        words = f"{search.name}: wrong ELF class: ELFCLASS32"
    else:
        words = say(search.name, Refusal("cannot open shared object file", search.error_number))
    if loader is None:
        return _fault_of_file(words, (search.name,))
    return LoadFailure(words=words, fault=LoadFault.LIBRARY, file=loader.path, name=search.name, chain=chain)


def _fault_of_file(words: str, chain: tuple[str, ...]) -> LoadFailure:
    return LoadFailure(words=words, fault=LoadFault.FILE, file=chain[-1], name="", chain=chain)


def _fault_of_version(words: str, loaded: LinkMap, version: str, provider: LinkMap | None) -> LoadFailure:
    return LoadFailure(
        words=words,
        fault=LoadFault.VERSION,
        file=loaded.path,
        name=version,
        provider=provider.library if provider else None,
        chain=loaded.chain,
    )
