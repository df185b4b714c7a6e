"""The cache of the dynamic loader, ``/etc/ld.so.cache``: which file answers to a library's name.

Layout: glibc, sysdeps/generic/dl-cache.h ("new" format, the only one since glibc 2.32; before that it stands behind
an old one). Offsets of strings count from the magic.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from envdoctor.binary.reader import BinaryError

MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20xII4xI12x")  # number of entries, size of the strings, place of the extensions
_ENTRY = struct.Struct("<IIIIQ")  # flags, name, path, OS version, hardware capabilities
# The second byte of the flags: sysdeps/generic/ldconfig.h, FLAG_X8664_LIB64 and so on.
_MACHINE_FLAGS = {"x86_64": 0x0300, "aarch64": 0x0A00, "ppc64le": 0x0500}

# Since glibc 2.33 the capabilities of an entry may be the number of a text ("x86-64-v3") in an extension.
_NAMED_CAPABILITY = 1 << 62
_EXTENSION_MAGIC = 0xEAA42174
_EXTENSIONS = struct.Struct("<II")  # magic, number of sections
_EXTENSION = struct.Struct("<IIII")  # kind, flags, place, size
_CAPABILITIES = 1
_MOST_EXTENSIONS = 64


class CachedLibrary(NamedTuple):
    """One file that answers to a name."""

    path: str
    capability: str  # what the processor must be able to do, "x86-64-v3"; "" for nothing in particular


def read_loader_cache(content: bytes, machine: str) -> dict[str, tuple[CachedLibrary, ...]]:
    """Read which files answer to which name on this *machine* (as `uname` says it), in the order of the cache.

    Raises:
        BinaryError: this is not such a cache, or it is cut off.

    """
    found: dict[str, list[CachedLibrary]] = {}
    for name, library in _read_entries(content, machine):
        found.setdefault(name, []).append(library)
    return {name: tuple(libraries) for name, libraries in found.items()}


def find_in_loader_cache(content: bytes, soname: str, machine: str) -> Iterator[str]:
    """Yield the paths that answer to *soname* on this *machine* (as `uname` says it), best first.

    Raises:
        BinaryError: this is not such a cache, or it is cut off.

    """
    for library in read_loader_cache(content, machine).get(soname, ()):
        yield library.path


def _read_entries(content: bytes, machine: str) -> Iterator[tuple[str, CachedLibrary]]:
    start = content.find(MAGIC)
    if start < 0:
        raise BinaryError("not a cache of the dynamic loader", 0)
    table = start + _HEADER.size
    if len(content) < table:
        raise BinaryError("a cache that is cut off", start)
    count, _, extensions = _HEADER.unpack_from(content, start)
    if len(content) < table + count * _ENTRY.size:
        raise BinaryError("a cache that is cut off", table)
    wanted_machine = _MACHINE_FLAGS.get(machine)
    capabilities = _read_capabilities(content, start, start + extensions) if extensions else ()
    for flags, name, path, _, needs in _ENTRY.iter_unpack(content[table : table + count * _ENTRY.size]):
        if wanted_machine not in {None, flags & 0xFF00}:
            continue
        capability = ""
        if needs & _NAMED_CAPABILITY:
            number = needs & 0xFFFFFFFF
            capability = capabilities[number] if number < len(capabilities) else "?"
        elif needs:
            continue  # a legacy capability ("tls", "haswell"): no distribution since 2020 has such files
        yield _text(content, start + name), CachedLibrary(_text(content, start + path), capability)


def _read_capabilities(content: bytes, start: int, place: int) -> tuple[str, ...]:
    if len(content) < place + _EXTENSIONS.size:
        raise BinaryError("a cache that is cut off", place)
    magic, count = _EXTENSIONS.unpack_from(content, place)
    place += _EXTENSIONS.size
    if magic != _EXTENSION_MAGIC or count > _MOST_EXTENSIONS or len(content) < place + count * _EXTENSION.size:
        return ()
    for kind, _, offset, size in _EXTENSION.iter_unpack(content[place : place + count * _EXTENSION.size]):
        if kind == _CAPABILITIES:
            names = content[start + offset : start + offset + size // 4 * 4]
            return tuple(_text(content, start + name) for (name,) in struct.iter_unpack("<I", names))
    return ()


def _text(content: bytes, place: int) -> str:
    end = content.find(b"\0", place)
    return content[place : end if end >= 0 else None].decode("utf-8", "backslashreplace")
