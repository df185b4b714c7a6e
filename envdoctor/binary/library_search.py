"""In which files glibc looks for a needed library: search paths, their variables, capabilities of the processor.

Source: glibc, elf/dl-load.c (`fillin_rpath`, `_dl_dst_substitute`), elf/dl-hwcaps.c, elf/dl-cache.c; ld.so(8).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envdoctor.binary.loadable import GlibcVersion
from envdoctor.binary.loader_cache import CachedLibrary

_VARIABLE = re.compile(r"\$(?:\{(ORIGIN|PLATFORM|LIB)\}|(ORIGIN|PLATFORM|LIB)(?![A-Za-z0-9_]))")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """What is the same for every search of a process."""

    machine: int  # e_machine
    glibc: GlibcVersion
    library_path: tuple[str, ...]  # entries of LD_LIBRARY_PATH, as `split_library_path` returns them
    cache: Mapping[str, tuple[CachedLibrary, ...]]  # ld.so.cache
    default_folders: tuple[str, ...]
    capabilities: tuple[str, ...] = ()  # subfolders that are looked into first, best first
    lib: str = "lib64"  # what $LIB stands for
    platform: str = ""  # what $PLATFORM stands for


@dataclass(frozen=True, slots=True)
class Folder:
    """One entry of a search path."""

    path: str  # as the loader writes it, with a slash at its end; "" is the working folder
    found_through: str  # "RPATH", "LD_LIBRARY_PATH", ...


def split_library_path(text: str) -> tuple[str, ...]:
    """Split LD_LIBRARY_PATH: an empty entry is the working folder, an empty variable has none."""
    return tuple(re.split("[:;]", text)) if text else ()


def split_preload(text: str) -> tuple[str, ...]:
    """Split LD_PRELOAD, which has no comments (elf/rtld.c, `handle_preload_list`)."""
    return tuple(filter(None, re.split("[: ]", text)))


def split_preload_file(text: str) -> tuple[str, ...]:
    """Split `/etc/ld.so.preload`, which has lines and comments as well."""
    return tuple(filter(None, re.split(r"[: \t\n]", re.sub("#.*", "", text))))


def expand(text: str, origin: str, rules: SearchRules) -> str:
    """Replace $ORIGIN, $LIB and $PLATFORM; "" where one of them has no value."""
    values = {"ORIGIN": origin, "PLATFORM": rules.platform, "LIB": rules.lib}
    names = [found[1] or found[2] for found in _VARIABLE.finditer(text)]
    if not all(values[name] for name in names):
        return ""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def split_search_path(text: str, found_through: str, origin: str, rules: SearchRules) -> tuple[Folder, ...]:
    """Split the search path of a file (DT_RPATH, DT_RUNPATH)."""
    return expand_folders(text.split(":") if text else (), found_through, origin, rules)


def expand_folders(entries: Sequence[str], found_through: str, origin: str, rules: SearchRules) -> tuple[Folder, ...]:
    """Turn entries into folders, each once; those whose variables have no value are left out."""
    expanded = ((entry, expand(entry, origin, rules)) for entry in entries)
    # The working folder, which an empty entry stands for, is no part of the paths that the loader puts together.
    written = (folder.rstrip("/") + "/" if entry else "" for entry, folder in expanded if folder or not entry)
    return tuple(Folder(folder, found_through) for folder in dict.fromkeys(written))


def find_cached(name: str, rules: SearchRules) -> str:
    """Find the file that the cache names for a library, "" where it names none for this processor."""
    ranks = {capability.rpartition("/")[2]: rank for rank, capability in enumerate(rules.capabilities)}
    usable = [
        (ranks[entry.capability] if entry.capability else len(ranks), place, entry.path)
        for place, entry in enumerate(rules.cache.get(name, ()))
        if not entry.capability or entry.capability in ranks
    ]
    return min(usable)[2] if usable else ""
