"""How the dynamic loader of this machine searches: which glibc, which default folders, which processor."""

import os
import re
from itertools import compress, product

from envdoctor.binary import elf as layout
from envdoctor.binary.elf import parse_elf
from envdoctor.binary.library_search import SearchRules, split_library_path, split_preload_file
from envdoctor.binary.loadable import GlibcVersion, read_interpreter
from envdoctor.binary.loader_cache import CachedLibrary, read_loader_cache
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.errors import ProbeError
from envdoctor.probes.foreign_files import read_file, read_head, read_text

MACHINES = {layout.MACHINE_X86_64: "x86_64", layout.MACHINE_AARCH64: "aarch64"}

_CACHE = "/etc/ld.so.cache"
_PRELOAD = "/etc/ld.so.preload"
_LARGEST_LOADER = 16 << 20
# The loader keeps its default folders one behind the other, each with a slash at its end (elf/dl-load.c, system_dirs).
_DEFAULT_FOLDERS = re.compile(rb"(?<![ -~])(?:/[\w/.+-]*lib[\w/.+-]*/\0)+")
_BANNER_START = b"GNU C Library "
_BANNER = re.compile(rb"version (\d+)\.(\d+)")
_LONGEST_BANNER = 200

# What each level of x86-64 adds, as /proc/cpuinfo names it (x86-64 psABI, "Micro-Architecture Levels").
_LEVELS = {
    "x86-64-v2": frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
    "x86-64-v3": frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}),
    "x86-64-v4": frozenset({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}),
}
_HAS_LEVELS = (2, 33)
_HAS_NO_OTHER_SUBFOLDERS = (2, 37)
_LONGEST_CPUINFO = 1 << 14  # of one processor: all are alike


def read_interpreter_file(executable: str) -> tuple[int, str]:
    """Read which machine a program is for (e_machine), and which loader it asks for.

    Raises:
        BinaryError: it is not a program that this could be told of.
        OSError: it cannot be read.

    """
    with open_file(executable) as reader:
        program = parse_elf(reader)
        return program.header.machine, read_interpreter(program)


def read_preload_file() -> tuple[str, ...]:
    """Read what this machine preloads into every process, as vGPU managers have it, () where there is nothing."""
    try:
        return split_preload_file(read_text(_PRELOAD))
    except OSError:
        return ()


def read_search_rules(loader: str, machine: int, library_path: str) -> SearchRules:
    """Read how a loader searches that lies at the path *loader*.

    Raises:
        ProbeError: it cannot be read, or is not glibc's.

    """
    try:
        content = read_file(loader, largest=_LARGEST_LOADER)
        glibc = _read_glibc(os.path.join(os.path.dirname(os.path.realpath(loader)), "libc.so.6"))
    except (OSError, BinaryError) as exc:
        raise ProbeError(f"the dynamic loader of the interpreter cannot be read: {exc}") from exc
    folders = _DEFAULT_FOLDERS.search(content)
    if not folders:
        raise ProbeError(f"`{loader}` does not tell in which folders it searches")
    defaults = tuple(os.fsdecode(folder) for folder in folders[0].split(b"\0") if folder)
    flags = _read_processor_flags()
    return SearchRules(
        machine=machine,
        glibc=glibc,
        library_path=split_library_path(library_path),
        cache=_read_cache(MACHINES[machine]),
        default_folders=defaults,
        capabilities=tuple(_find_capabilities(machine, glibc, flags)),
        lib=_lib_of(defaults[0]),
        platform=_platform(machine, flags),
    )


def _read_glibc(library: str) -> GlibcVersion:
    with open_file(library) as reader:
        place = reader.find(_BANNER_START, 0, reader.size)
        banner = reader.peek(place, _LONGEST_BANNER) if place >= 0 else b""
    if version := _BANNER.search(banner.partition(b"\n")[0]):
        return int(version[1]), int(version[2])
    raise BinaryError(f"`{library}` does not tell its version", 0)


def _read_cache(machine: str) -> dict[str, tuple[CachedLibrary, ...]]:
    try:
        return read_loader_cache(read_file(_CACHE), machine)
    except (OSError, BinaryError):  # the loader does without it as well
        return {}


def _lib_of(folder: str) -> str:
    """What $LIB stands for: "lib64" where the first default folder is "/lib64/"."""
    inner = folder.strip("/")
    return inner if inner.startswith("lib") else os.path.basename(inner)


def _read_processor_flags() -> frozenset[str]:
    try:
        text = read_head("/proc/cpuinfo", _LONGEST_CPUINFO).decode("ascii", "replace")
    except OSError:
        return frozenset()
    found = re.search(r"^flags\s*:(.*)", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def _find_capabilities(machine: int, glibc: GlibcVersion, flags: frozenset[str]) -> list[str]:
    """Find the subfolders that are looked into before a folder itself, best first."""
    if machine != layout.MACHINE_X86_64:
        return []  # glibc looks for none on aarch64 that any distribution has
    found = []
    if glibc >= _HAS_LEVELS:
        supported: list[str] = []
        for level, needs in _LEVELS.items():
            if not needs <= flags:
                break
            supported.insert(0, f"glibc-hwcaps/{level}")
        found += supported
    if glibc < _HAS_NO_OTHER_SUBFOLDERS:
        found += _older_subfolders(machine, flags)
    return found


def _older_subfolders(machine: int, flags: frozenset[str]) -> list[str]:
    """Combine "tls", the platform, "avx512_1" and "x86_64" as glibc up to 2.36 does (elf/dl-hwcaps.c)."""
    has_avx512 = {"avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags
    parts = ["tls", _platform(machine, flags), *(["avx512_1"] if has_avx512 else []), "x86_64"]
    parts = list(dict.fromkeys(parts))
    chosen = product((True, False), repeat=len(parts))
    return ["/".join(compress(parts, choice)) for choice in chosen if any(choice)]


def _platform(machine: int, flags: frozenset[str]) -> str:
    """What $PLATFORM stands for: glibc calls processors with AVX2 "haswell" (sysdeps/x86/cpu-features.c)."""
    is_haswell = {"avx2", "bmi1", "bmi2", "abm", "movbe", "popcnt", "fma"} <= flags
    return "haswell" if machine == layout.MACHINE_X86_64 and is_haswell else MACHINES[machine]
