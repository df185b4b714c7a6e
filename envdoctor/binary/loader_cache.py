"""The cache of the dynamic loader, ``/etc/ld.so.cache``: which file answers to a library's name.

Layout: glibc, sysdeps/generic/dl-cache.h ("new" format, the only one since glibc 2.32; before that it stands behind
an old one). Offsets of strings count from the magic.
"""

import struct
from collections.abc import Iterator

from envdoctor.binary.reader import BinaryError

MAGIC = b"glibc-ld.so.cache1.1"
_COUNT = struct.Struct("<20xI")
_HEADER_SIZE = 48
_ENTRY = struct.Struct("<IIIIQ")  # flags, name, path, OS version, hardware capabilities
# The second byte of the flags: sysdeps/generic/ldconfig.h, FLAG_X8664_LIB64 and so on.
_MACHINE_FLAGS = {"x86_64": 0x0300, "aarch64": 0x0A00, "ppc64le": 0x0500}


def find_in_loader_cache(content: bytes, soname: str, machine: str) -> Iterator[str]:
    """Yield the paths that answer to *soname* on this *machine* (as `uname` says it), best first.

    Raises:
        BinaryError: this is not such a cache, or it is cut off.

    """
    start = content.find(MAGIC)
    if start < 0:
        raise BinaryError("not a cache of the dynamic loader", 0)
    entries = content[start + _HEADER_SIZE :]
    if len(content) < start + _HEADER_SIZE:
        raise BinaryError("a cache that is cut off", start)
    count = _COUNT.unpack_from(content, start)[0]
    if len(entries) < count * _ENTRY.size:
        raise BinaryError("a cache that is cut off", start + _HEADER_SIZE)
    wanted = soname.encode() + b"\0"
    wanted_machine = _MACHINE_FLAGS.get(machine)
    for flags, name, path, _, _ in _ENTRY.iter_unpack(entries[: count * _ENTRY.size]):
        if wanted_machine in {None, flags & 0xFF00} and content.startswith(wanted, start + name):
            text, _, _ = content[start + path :].partition(b"\0")
            yield text.decode("utf-8", "backslashreplace")
