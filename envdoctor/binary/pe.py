"""Windows files (DLL, .pyd): sections and imported libraries.

Layout: Microsoft, "PE Format", https://learn.microsoft.com/windows/win32/debug/pe-format.
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from envdoctor.binary.reader import BinaryError, Reader

MAGIC = b"MZ"

FLAG_INITIALISED = 0x40
FLAG_EXECUTABLE = 0x2000_0000

_NEW_HEADER_OFFSET = struct.Struct("<60xI")
_HEADER = struct.Struct("<4sHHIIIHH")  # signature, machine, sections, time, symbols, their number, optional size, flags
_OPTIONAL_MAGIC = struct.Struct("<H")
# Where the number of directories stands in the optional header, by its magic: of 32-bit and of 64-bit files.
_DIRECTORIES_OFFSETS = {0x10B: 92, 0x20B: 108}
_COUNT = struct.Struct("<I")
_SECTION = struct.Struct("<8sIIII12xI")  # name, virtual size, address, file size, file offset, flags
_DIRECTORY = struct.Struct("<II")  # address, size
_IMPORT = struct.Struct("<12xI4x")  # address of the library's name
_IMPORT_DIRECTORY = 1
_MOST_IMPORTS = 4096
_LONGEST_NAME = 1024


class PeError(BinaryError):
    """The bytes are not a Windows file."""


class Section(NamedTuple):
    """One section; its name is cut after eight characters."""

    name: str
    virtual_size: int
    address: int
    file_size: int
    offset: int
    flags: int

    @property
    def size(self) -> int:
        """The bytes of the file that belong to it; the rest, up to `file_size`, is padding."""
        return min(self.virtual_size, self.file_size) if self.virtual_size else self.file_size


@dataclass(frozen=True)
class Pe:
    """A Windows file."""

    reader: Reader
    directories_offset: int
    sections: tuple[Section, ...]

    def offset_of(self, address: int) -> int:
        """Where in the file the byte lies that is loaded at *address*, relative to the start of the image.

        Raises:
            PeError: no section brings a byte of the file there.

        """
        for section in self.sections:
            if 0 <= address - section.address < section.file_size:
                return address - section.address + section.offset
        raise PeError(f"address {address:#x} is in no section", self.directories_offset)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it imports, in order.

        Raises:
            BinaryError: the table of imports is damaged or cut off.

        """
        [count] = self.reader.unpack(_COUNT, self.directories_offset)
        if count <= _IMPORT_DIRECTORY:
            return ()
        place = self.directories_offset + _COUNT.size + _IMPORT_DIRECTORY * _DIRECTORY.size
        address, size = self.reader.unpack(_DIRECTORY, place)
        if not address or not size:
            return ()
        start, names = self.offset_of(address), []
        for index in range(min(size // _IMPORT.size, _MOST_IMPORTS)):
            [name_address] = self.reader.unpack(_IMPORT, start + index * _IMPORT.size)
            if not name_address:
                break
            name_offset = self.offset_of(name_address)
            names.append(self.reader.text(name_offset, name_offset + _LONGEST_NAME))
        return tuple(names)


def parse_pe(reader: Reader) -> Pe:
    """Read the headers of a Windows file.

    Raises:
        BinaryError: it is no such file, or a damaged one.

    """
    [offset] = reader.unpack(_NEW_HEADER_OFFSET, 0)
    signature, _, count, _, _, _, optional_size, _ = reader.unpack(_HEADER, offset)
    if reader.read(0, len(MAGIC)) != MAGIC or signature != b"PE\0\0":
        raise PeError("not a Windows file", 0)
    optional_offset = offset + _HEADER.size
    [magic] = reader.unpack(_OPTIONAL_MAGIC, optional_offset)
    if magic not in _DIRECTORIES_OFFSETS:
        raise PeError("not a Windows program or library", optional_offset)
    table = reader.read(optional_offset + optional_size, count * _SECTION.size)
    sections = (
        Section(name.rstrip(b"\0").decode("utf-8", "backslashreplace"), *fields)
        for name, *fields in _SECTION.iter_unpack(table)
    )
    return Pe(reader, optional_offset + _DIRECTORIES_OFFSETS[magic], tuple(sections))
