"""What the dynamic loader will do in a process of the examined interpreter: plain, frozen data, no judgement.

Paths are text, as they stood on the examined machine.
"""

from dataclasses import dataclass
from enum import Enum


class LoadFault(Enum):
    """What stops the dynamic loader, in the order in which glibc looks (elf/dl-load.c, dl-version.c, dl-reloc.c)."""

    FILE = "file"  # the file itself: cut off, not an ELF file, for another machine or word size
    LIBRARY = "library"  # a needed library (DT_NEEDED) is not found
    VERSION = "version"  # a library that is found lacks a symbol version that is asked of it
    SYMBOL = "symbol"  # no loaded library defines a symbol


BUS_ERROR = "Bus error"  # the loader says nothing: the system ends the process (SIGBUS), as the shell then says


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLibrary:
    """The file that the loader takes for a needed library, and why that file."""

    name: str  # what was asked for: a soname, or a path
    path: str  # what is taken
    found_through: str  # "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", "default", "already loaded", ...
    folder: str  # the entry of that search path, expanded; "" where there is none
    needed_by: str  # path of the library that asked for it; "" for what is opened by path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailure:
    """What the dynamic loader says instead of loading a library, and what can be told about it from files."""

    words: str  # exactly as the loader says it
    fault: LoadFault
    file: str  # the file that is at fault or in need: damaged, or lacking a library, a version or a symbol
    name: str  # the missing library, symbol version or symbol (mangled); "" for FILE
    symbol_version: str = ""  # that a missing symbol is asked in, e.g. "libnvJitLink.so.12"
    provider: LoadedLibrary | None = None  # the library that should have it (VERSION; SYMBOL with a version)
    chain: tuple[str, ...] = ()  # from the library that is opened down to `file`, by path
    undefined: tuple[str, ...] = ()  # every symbol of `file` that nothing defines, in the loader's order, 200 at most
    # `name` and the first others of `undefined`, as C++ writes them; () where nothing demangles.
    demangled: tuple[str, ...] = ()
    # Symbols that torch's libraries define, and that differ from `name` in the ABI of std::string alone.
    other_abi: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()  # files of the environment or the system that have what is missing, by path
    relatives: tuple[str, ...] = ()  # for LIBRARY: files of the same library in another version, by path

    @property
    def ends_process(self) -> bool:
        """Whether no code can catch it."""
        return self.words == BUS_ERROR


class LoadWay(Enum):
    """How a library comes to be opened."""

    WITH_PACKAGE = "with its package"  # importing its package imports it, unconditionally: `import_chain` shows it
    PERHAPS = "perhaps"  # from a function, under a condition, or from nowhere that can be told
    LAZY = "lazily"  # opened by name when first used (kb/load_effects.toml)
    CACHED = "from torch's cache"  # torch compiled it, and imports it when a job calls torch.utils.cpp_extension.load


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLoad:
    """A library of the environment that the dynamic loader will refuse."""

    library: str  # path
    module: str  # the name it is imported by, e.g. "mmcv._ext"; "" for what is opened by path
    distribution: str  # the distribution that owns it, "" when none does
    needs_torch: bool  # it, or what it needs, needs libraries of torch
    after_torch: bool  # predicted for a process that has imported torch
    way: LoadWay
    import_chain: tuple[str, ...]  # the statements that lead to it, "mmcv/__init__.py:7", ...; () when none is certain
    # Statements of the package that open libraries before it (ctypes.CDLL and its like): they may mend what is missing.
    preloads: tuple[str, ...]
    failure: LoadFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class OverriddenLibrary:
    """A library that processes of this environment take from elsewhere, although the environment has its own."""

    taken: LoadedLibrary
    own: str  # path of the file that the environment brings for it
    taken_version: str  # from the name of the file behind the links, e.g. "8.2.4"; "" when it does not tell
    own_version: str
    same_content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """What the dynamic loader will do in a process of the examined interpreter."""

    library_path: tuple[str, ...]  # entries of LD_LIBRARY_PATH, as the loader splits it
    preload: tuple[str, ...]  # entries of LD_PRELOAD
    glibc: str  # of the libc.so.6 that is loaded
    torch: LoadFailure | None  # what `import torch` says; None when it loads, or when there is no torch
    # The libraries that `import torch` brings into the process, in the loader's order.
    torch_process: tuple[LoadedLibrary, ...]
    overridden: tuple[OverriddenLibrary, ...]
    asked: int  # how many libraries the prediction was made for
    failed: tuple[FailedLoad, ...]
    unreadable: tuple[str, ...] = ()  # "PATH: reason" for what could not be judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignModule:
    """An extension module that the examined interpreter does not see: its name is tagged for another one."""

    library: str  # path
    module: str  # "isaacgym._bindings.gym_38"
    tag: str  # "cpython-38-x86_64-linux-gnu"
    distribution: str
    import_chain: tuple[str, ...]  # as in `FailedLoad`
    # Its distribution also has libraries that the examined interpreter can import; so where no distribution owns it.
    has_siblings: bool = True
