"""64-bit little-endian ELF files: headers, sections, segments, the dynamic table and symbols.

Layouts: System V ABI, chapters 4 and 5, and elf(5). Everything that the dynamic loader uses is found through the
segments, as it does; sections may be missing.
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from envdoctor.binary.reader import BinaryError, Reader

MAGIC = b"\x7fELF"

# e_type
TYPE_EXECUTABLE = 2
TYPE_SHARED = 3

# e_machine
MACHINE_X86_64 = 62
MACHINE_AARCH64 = 183
MACHINE_CUDA = 190

# p_type
SEGMENT_LOAD = 1
SEGMENT_DYNAMIC = 2
SEGMENT_INTERPRETER = 3
SEGMENT_GNU_STACK = 0x6474E551

FLAG_SEGMENT_EXECUTABLE = 1

# sh_type and sh_flags
SECTION_PROGBITS = 1
SECTION_NOBITS = 8
FLAG_ALLOCATED = 0x2
FLAG_EXECUTABLE = 0x4

# d_tag
TAG_NULL = 0
TAG_NEEDED = 1
TAG_PLT_SIZE = 2
TAG_HASH = 4
TAG_STRING_TABLE = 5
TAG_SYMBOL_TABLE = 6
TAG_RELA = 7
TAG_RELA_SIZE = 8
TAG_STRING_SIZE = 10
TAG_SONAME = 14
TAG_RPATH = 15
TAG_PLT_RELOCATIONS = 23
TAG_BIND_NOW = 24
TAG_RUNPATH = 29
TAG_FLAGS = 30
TAG_RELR = 36
TAG_GNU_HASH = 0x6FFFFEF5
TAG_VERSION_SYMBOLS = 0x6FFFFFF0
TAG_RELA_COUNT = 0x6FFFFFF9
TAG_FLAGS_1 = 0x6FFFFFFB
TAG_VERSION_DEFINITIONS = 0x6FFFFFFC
TAG_VERSION_NEEDS = 0x6FFFFFFE

# DT_FLAGS and DT_FLAGS_1
FLAG_BIND_NOW = 0x8
FLAG_1_NOW = 0x1
FLAG_1_NO_OPEN = 0x40
FLAG_1_NO_DEFAULT_FOLDERS = 0x800
FLAG_1_PIE = 0x08000000

_CLASS_64 = 2
_LITTLE_ENDIAN = 1
_IDENT = struct.Struct("<4sBB")  # magic, class, data encoding
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")  # tag, value
_SYMBOL = struct.Struct("<IBBHQQ")

# Far above what linkers write, far below what would hurt: a damaged count must not fill the memory.
_MOST_SECTIONS = 1 << 17
_LARGEST_NAME_TABLE = 1 << 24
_LARGEST_DYNAMIC = 1 << 20
_EXTENDED_INDEX = 0xFFFF


class ElfError(BinaryError):
    """The bytes are not an ELF file that a 64-bit little-endian machine could load."""


class Header(NamedTuple):
    """The file header, after its identification bytes."""

    file_type: int
    machine: int
    version: int
    entry: int
    segments_offset: int
    sections_offset: int
    flags: int
    header_size: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    names_index: int


class Section(NamedTuple):
    """One section, by the name that it has in the table of section names."""

    name: str
    section_type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Segment(NamedTuple):
    """One segment: what the loader maps or looks for."""

    segment_type: int
    flags: int
    offset: int
    address: int
    physical_address: int
    file_size: int
    memory_size: int
    alignment: int


class Symbol(NamedTuple):
    """One entry of a symbol table; its name is an offset into the string table that belongs to it."""

    name_offset: int
    type_and_binding: int
    other: int
    section_index: int
    value: int
    size: int


@dataclass(frozen=True)
class Elf:
    """An ELF file; what is asked for is read when it is asked for, once."""

    reader: Reader
    header: Header

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections, () for a file that has no section table.

        Raises:
            BinaryError: the table is damaged or cut off.

        """
        header = self.header
        if not header.sections_offset:
            return ()
        if header.section_size != _SECTION.size:
            raise ElfError(f"section headers of {header.section_size} bytes", header.sections_offset)
        count, names_index = self._extended_numbers()
        if count > _MOST_SECTIONS:
            raise ElfError(f"{count} sections", header.sections_offset)
        table = self.reader.read(header.sections_offset, count * _SECTION.size)
        rows = list(_SECTION.iter_unpack(table))
        if not names_index < len(rows):
            raise ElfError("no table of section names", header.sections_offset)
        names = self._section_names(rows[names_index][4], rows[names_index][5])
        return tuple(Section(_name_at(names, row[0]), *row[1:]) for row in rows)

    def _extended_numbers(self) -> tuple[int, int]:
        """Count the sections; numbers that do not fit the header stand in the first section (elf(5), e_shnum)."""
        header = self.header
        if header.section_count and header.names_index != _EXTENDED_INDEX:
            return header.section_count, header.names_index
        first = self.reader.unpack(_SECTION, header.sections_offset)
        names_index = first[6] if header.names_index == _EXTENDED_INDEX else header.names_index
        return header.section_count or first[5], names_index

    def _section_names(self, offset: int, size: int) -> bytes:
        if size > _LARGEST_NAME_TABLE:
            raise ElfError(f"section names of {size} bytes", offset)
        return self.reader.read(offset, size)

    def section(self, name: str) -> Section | None:
        """The first section of that name which has bytes in the file."""
        named = (section for section in self.sections if section.name == name)
        return next((section for section in named if section.section_type != SECTION_NOBITS), None)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, () for an object file.

        Raises:
            BinaryError: the table is damaged or cut off.

        """
        header = self.header
        if not header.segments_offset or not header.segment_count:
            return ()
        if header.segment_size != _SEGMENT.size:
            raise ElfError(f"segment headers of {header.segment_size} bytes", header.segments_offset)
        table = self.reader.read(header.segments_offset, header.segment_count * _SEGMENT.size)
        return tuple(Segment(*row) for row in _SEGMENT.iter_unpack(table))

    def offset_of(self, address: int) -> int:
        """Where in the file the byte lies that is loaded at *address*.

        Raises:
            ElfError: no segment brings a byte of the file there.

        """
        for segment in self.segments:
            inside = 0 <= address - segment.address < segment.file_size
            if segment.segment_type == SEGMENT_LOAD and inside:
                return address - segment.address + segment.offset
        raise ElfError(f"address {address:#x} is in no segment", self.header.segments_offset)

    @cached_property
    def dynamic(self) -> tuple[tuple[int, int], ...]:
        """The dynamic table, as (tag, value) in file order, () for a file that is linked statically.

        Raises:
            BinaryError: the table is damaged or cut off.

        """
        found = [segment for segment in self.segments if segment.segment_type == SEGMENT_DYNAMIC]
        if not found:
            return ()
        if found[0].file_size > _LARGEST_DYNAMIC:
            raise ElfError(f"a dynamic table of {found[0].file_size} bytes", found[0].offset)
        table = self.reader.read(found[0].offset, found[0].file_size // _DYNAMIC.size * _DYNAMIC.size)
        entries = []
        for tag, value in _DYNAMIC.iter_unpack(table):
            if tag == TAG_NULL:
                break
            entries.append((tag, value))
        return tuple(entries)

    def dynamic_values(self, tag: int) -> tuple[int, ...]:
        """The values of every entry of the dynamic table that has this tag."""
        return tuple(value for entry_tag, value in self.dynamic if entry_tag == tag)

    def dynamic_value(self, tag: int) -> int | None:
        """The value that the loader takes for a tag: that of its last entry; None where there is none."""
        return next(iter(self.dynamic_values(tag)[::-1]), None)

    @cached_property
    def dynamic_strings(self) -> tuple[int, int]:
        """Where the strings of the dynamic table begin and end in the file."""
        tables, sizes = self.dynamic_values(TAG_STRING_TABLE), self.dynamic_values(TAG_STRING_SIZE)
        if not tables or not sizes:
            raise ElfError("a dynamic table without strings", self.header.segments_offset)
        start = self.offset_of(tables[0])
        return start, start + sizes[0]

    def dynamic_string(self, name_offset: int) -> str:
        """The string that a value of the dynamic table, or a dynamic symbol, names.

        Raises:
            BinaryError: there is no such string.

        """
        start, end = self.dynamic_strings
        return self.reader.text(start + name_offset, end)

    def _dynamic_texts(self, tag: int) -> tuple[str, ...]:
        return tuple(self.dynamic_string(value) for value in self.dynamic_values(tag))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it needs, in order (DT_NEEDED)."""
        return self._dynamic_texts(TAG_NEEDED)

    @cached_property
    def soname(self) -> str:
        """The name that other libraries know it by (DT_SONAME), "" when it has none."""
        return next(iter(self._dynamic_texts(TAG_SONAME)), "")

    @cached_property
    def rpath(self) -> str:
        """The search path that the libraries it loads inherit (DT_RPATH), "" when it has none."""
        return next(iter(self._dynamic_texts(TAG_RPATH)), "")

    @cached_property
    def runpath(self) -> str:
        """The search path for its own needs only (DT_RUNPATH), "" when it has none."""
        return next(iter(self._dynamic_texts(TAG_RUNPATH)), "")

    def find_symbol(self, name: str, table_name: str = ".symtab") -> Symbol | None:
        """Find a symbol by its name without reading the names of all others.

        Raises:
            BinaryError: the tables are damaged or cut off.

        """
        table = self.section(table_name)
        if table is None:
            return None
        if not table.link < len(self.sections):
            raise ElfError(f"`{table_name}` has no string table", table.offset)
        strings = self.sections[table.link]
        needle, end = name.encode() + b"\0", strings.offset + strings.size
        place = self.reader.find(needle, strings.offset, end)
        while place >= 0:
            # Linkers let names share their tails: this may be `exit`, or the end of `atexit`, or both.
            if symbol := self._symbol_named_at(table, place - strings.offset):
                return symbol
            place = self.reader.find(needle, place + 1, end)
        return None

    def _symbol_named_at(self, table: Section, name_offset: int) -> Symbol | None:
        # Looking for the bytes of the offset is ten times faster than unpacking every symbol.
        needle, end = name_offset.to_bytes(4, "little"), table.offset + table.size
        place = self.reader.find(needle, table.offset, end)
        while place >= 0:
            if (place - table.offset) % _SYMBOL.size == 0:
                return Symbol(*self.reader.unpack(_SYMBOL, place))
            place = self.reader.find(needle, place + 1, end)
        return None


def parse_elf(reader: Reader) -> Elf:
    """Read the header of an ELF file.

    Raises:
        ElfError: it is not an ELF file, or one of another word size or byte order.
        TruncatedError: the file ends within its header.

    """
    magic, word_size, byte_order = reader.unpack(_IDENT, 0)
    if magic != MAGIC:
        raise ElfError("not an ELF file", 0)
    if word_size != _CLASS_64:
        raise ElfError("a 32-bit ELF file" if word_size == 1 else f"an ELF file of class {word_size}", 4)
    if byte_order != _LITTLE_ENDIAN:
        raise ElfError("a big-endian ELF file", 5)
    return Elf(reader, Header(*reader.unpack(_HEADER, 0)))


def _name_at(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset)
    return names[offset : end if end >= 0 else None].decode("utf-8", "backslashreplace")
