"""Members of static libraries (`.a`), without extracting them.

Layout: ar(5) with the extensions of System V (GNU) and BSD for long names.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from envdoctor.binary.reader import BinaryError, Reader, WindowReader

MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"

_HEADER = struct.Struct("<16s12s6s6s8s10s2s")  # name, time, owner, group, mode, size, end mark
_END_MARK = b"`\n"
_LARGEST_NAME_TABLE = 1 << 24


class ArError(BinaryError):
    """The bytes are not a static library that holds its members."""


class Member(NamedTuple):
    """One file of the library."""

    name: str
    reader: WindowReader


def find_members(reader: Reader) -> Iterator[Member]:
    """Go through the files of a static library, in order; indexes and tables of names are left out.

    Raises:
        ArError: it is not such a library, or a damaged one.

    """
    magic = reader.peek(0, len(MAGIC))
    if magic == THIN_MAGIC:
        raise ArError("a thin archive, whose members are files elsewhere", 0)
    if magic != MAGIC:
        raise ArError("not a static library", 0)
    names, place = b"", len(MAGIC)
    while place < reader.size:
        field, _, _, _, _, size_field, end_mark = reader.unpack(_HEADER, place)
        digits = size_field.strip()
        if end_mark != _END_MARK or not digits.isdigit():
            raise ArError("the header of an archive member is damaged", place)
        start, size = place + _HEADER.size, int(digits)
        if start + size > reader.size:
            raise ArError(f"an archive member of {size} bytes is cut off", place)
        place = start + size + size % 2
        if field.startswith(b"//"):
            names = reader.read(start, min(size, _LARGEST_NAME_TABLE))
        elif not field.startswith((b"/ ", b"/SYM64/ ", b"__.SYMDEF")):
            yield _member(reader, field, names, start, size)


def _member(reader: Reader, field: bytes, names: bytes, start: int, size: int) -> Member:
    name = field.rstrip(b" ")
    if name.startswith(b"#1/") and name[3:].isdigit():
        # BSD: the name stands before the content, and counts as part of it.
        length = min(int(name[3:]), size)
        name = reader.read(start, length).rstrip(b"\0")
        start, size = start + length, size - length
    elif name[:1] == b"/" and name[1:].isdigit():
        name = names[int(name[1:]) :].partition(b"\n")[0]
    return Member(name.removesuffix(b"/").decode("utf-8", "backslashreplace"), WindowReader(reader, start, size))
