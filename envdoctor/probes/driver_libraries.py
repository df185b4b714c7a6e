"""The driver's libraries on this machine, in the order in which the dynamic loader would try them (ld.so(8))."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.binary.loader_cache import find_in_loader_cache
from envdoctor.binary.reader import BinaryError
from envdoctor.model.facts import CudaLibrary, Unavailable
from envdoctor.model.versions import DriverRelease
from envdoctor.probes.foreign_files import read_file, read_head

_SONAMES = ("libcuda.so.1", "libnvidia-ml.so.1")
# Where NVIDIA's forward-compatibility package lies: /usr/local/cuda-12.4/compat, and conda's `cuda-compat`.
_COMPAT_FOLDERS = frozenset({"compat", "cuda-compat"})
_WSL_FOLDER = "usr/lib/wsl/lib"
_ELF_32_BIT = b"\x7fELF\x01"


def find_driver_libraries(root: Path, environ: Mapping[str, str]) -> tuple[CudaLibrary, ...]:
    """Find every file that answers to `libcuda.so.1` or `libnvidia-ml.so.1`, each once."""
    return tuple(library for soname in _SONAMES for library in _find(soname, root, environ))


def find_library(soname: str, root: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files that answer to a library's name and how each is found, the one that would be loaded first."""
    machine = os.uname().machine
    for folder in _split_search_path(environ.get("LD_LIBRARY_PATH", "")):
        yield _under(root, folder) / soname, "LD_LIBRARY_PATH"
    for path in _find_cached(root / "etc/ld.so.cache", soname, machine):
        yield _under(root, path), "ld.so.cache"
    for folder in _default_folders(machine):
        yield root / folder / soname, "default"


def _find(soname: str, root: Path, environ: Mapping[str, str]) -> Iterator[CudaLibrary]:
    seen = set()
    for path, found_through in (*find_library(soname, root, environ), (root / _WSL_FOLDER / soname, "wsl")):
        resolved = os.path.realpath(path)
        if resolved in seen or not os.path.isfile(resolved) or _is_32_bit(resolved):
            continue
        seen.add(resolved)
        yield CudaLibrary(
            soname=soname,
            path=f"/{os.path.relpath(resolved, root)}",
            release=read_release(resolved),
            found_through=found_through,
            is_compat=not _COMPAT_FOLDERS.isdisjoint(Path(resolved).parts),
        )


def read_release(path: str) -> DriverRelease | Unavailable:
    """Read the release of the driver from the name of one of its libraries."""
    found = re.search(r"\.so\.(\d{3}(?:\.\d{1,9}){1,3})$", path)
    return DriverRelease(found[1]) if found else Unavailable(f"the file name has no driver release: {path}")


def _under(root: Path, path: str) -> Path:
    return root / path.lstrip("/") if path.startswith("/") else Path(path)


def _split_search_path(text: str) -> list[str]:
    # An empty item is the working folder; an empty variable is no item.
    return [folder or "." for folder in re.split("[:;]", text)] if text else []


def _find_cached(cache: Path, soname: str, machine: str) -> tuple[str, ...]:
    try:
        return tuple(find_in_loader_cache(read_file(cache), soname, machine))
    except (OSError, BinaryError):  # the loader does without it as well
        return ()


def _default_folders(machine: str) -> tuple[str, ...]:
    triplet = f"{machine}-linux-gnu"
    return (f"lib/{triplet}", f"usr/lib/{triplet}", "lib64", "usr/lib64", "lib", "usr/lib")


def _is_32_bit(path: str) -> bool:
    """Whether the loader of a 64-bit process passes over the file."""
    try:
        return read_head(path, len(_ELF_32_BIT)) == _ELF_32_BIT
    except OSError:
        return False
