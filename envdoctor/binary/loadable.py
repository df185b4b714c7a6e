"""Whether glibc takes a file for a shared library, and in which words it refuses it (elf/dl-load.c).

The words are those of `open_verify` and `_dl_map_object_from_fd`, in their order; what differs between releases of
glibc follows the release that is asked about. Not told: what the kernel refuses to map for want of memory, or because a
security module forbids it; the level of x86-64 that a library is marked for (GNU_PROPERTY_X86_ISA_1_NEEDED).
"""

import errno
import struct
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from envdoctor.binary import elf as layout
from envdoctor.binary.elf import MAGIC, Elf, parse_elf
from envdoctor.binary.reader import Reader
from envdoctor.binary.symbols import SymbolTable
from envdoctor.model.loading import BUS_ERROR

GlibcVersion = tuple[int, int]

_HEADER_SIZE = 64
_IDENT = struct.Struct("<4s5B7s")  # magic, class, byte order, version, OS ABI, ABI version, padding
_REST = struct.Struct("<16xHHI30xHH")  # type, machine, version, size and number of segment headers
_CLASS_64, _LITTLE_ENDIAN, _VERSION = 2, 1, 1
_SYSTEM_V, _GNU = 0, 3
_SEGMENT_HEADER = 56
_PAGE = 4096  # also where pages are larger: linkers align segments for the largest
_FARTHEST_OFFSET = (1 << 63) - 1  # what the system can be asked for
_ADDRESS_SPACE = 1 << 47
_ABI_VERSIONS = {layout.MACHINE_X86_64: 4, layout.MACHINE_AARCH64: 3}  # glibc, libc-abis: LIBC_ABI_MAX

_DETECTS_PIE = (2, 30)
_CHECKS_PAGES_ONLY = (2, 35)
_REFUSES_EXECUTABLE_STACK = (2, 41)


class LibraryFile(NamedTuple):
    """An open file, and what tells it from all others: two paths may lead to one."""

    identity: Hashable
    reader: Reader
    error_number: int = 0  # of reading its first bytes
    allows_code: bool = True  # no, where its file system is mounted with `noexec`


class Refusal(NamedTuple):
    """Why the loader does not take a file; `words` are "" where it looks on for another one."""

    words: str
    error_number: int = 0
    is_other_class: bool = False


@dataclass(frozen=True, eq=False)
class LibraryImage:
    """A file that the loader would map, one for all of its paths; what is asked for is read once."""

    identity: Hashable
    elf: Elf
    allows_code: bool

    @cached_property
    def symbols(self) -> SymbolTable:
        """Its dynamic symbols."""
        return SymbolTable(self.elf)

    @cached_property
    def flags_1(self) -> int:
        """DT_FLAGS_1."""
        return self.elf.dynamic_value(layout.TAG_FLAGS_1) or 0

    @cached_property
    def binds_now(self) -> bool:
        """Whether all of its symbols are looked up when it is loaded, also with RTLD_LAZY."""
        flags = self.elf.dynamic_value(layout.TAG_FLAGS) or 0
        has_tag = self.elf.dynamic_value(layout.TAG_BIND_NOW) is not None
        return has_tag or bool(flags & layout.FLAG_BIND_NOW or self.flags_1 & layout.FLAG_1_NOW)

    @cached_property
    def rpath(self) -> str:
        """DT_RPATH, which counts only where there is no DT_RUNPATH."""
        return "" if self.has_runpath else self.elf.rpath

    @cached_property
    def has_runpath(self) -> bool:
        """Whether it has a DT_RUNPATH, which may be empty."""
        return self.elf.dynamic_value(layout.TAG_RUNPATH) is not None

    @cached_property
    def lacks_relr_version(self) -> bool:
        """Whether it has packed relocations and does not ask glibc for them."""
        has_relr = self.elf.dynamic_value(layout.TAG_RELR) is not None
        needed = [version.name for version in self.symbols.needed_versions]
        needs_libc = any(name.startswith("libc.so.") for name in self.elf.needed)
        return bool(has_relr and needed and needs_libc and b"GLIBC_ABI_DT_RELR" not in needed)


def verify(file: LibraryFile, machine: int) -> LibraryImage | Refusal:
    """Judge the headers of a file, as `open_verify` does.

    Raises:
        BinaryError: the file cannot be read any longer.

    """
    if file.error_number:
        return Refusal("cannot read file data", file.error_number)
    header = file.reader.peek(0, _HEADER_SIZE)
    if len(header) < _HEADER_SIZE:
        return Refusal("file too short")
    if refusal := _judge_ident(header, machine):
        return refusal
    file_type, found_machine, version, segment_size, segment_count = _REST.unpack_from(header)
    if version != _VERSION:
        return Refusal("ELF file version does not match current one")
    if found_machine != machine:
        return Refusal("", errno.ENOENT)
    if file_type not in {layout.TYPE_SHARED, layout.TYPE_EXECUTABLE}:
        return Refusal("only ET_DYN and ET_EXEC can be loaded")
    if segment_size != _SEGMENT_HEADER:
        return Refusal("ELF file's phentsize not the expected size")
    elf = parse_elf(file.reader)
    table_size = segment_count * _SEGMENT_HEADER
    if elf.header.segments_offset > _FARTHEST_OFFSET:
        return Refusal("cannot read file data", errno.EINVAL)
    if len(file.reader.peek(elf.header.segments_offset, table_size)) != table_size:
        return Refusal("cannot read file data")
    return LibraryImage(file.identity, elf, file.allows_code)


def _judge_ident(header: bytes, machine: int) -> Refusal | None:
    magic, word_size, byte_order, version, system, abi_version, padding = _IDENT.unpack_from(header)
    if magic != MAGIC:
        return Refusal("invalid ELF header")
    if word_size != _CLASS_64:
        return Refusal("", errno.ENOENT, is_other_class=True)
    if byte_order != _LITTLE_ENDIAN:
        return Refusal("ELF file data encoding not little-endian")
    if version != _VERSION:
        return Refusal("ELF file version ident does not match current one")
    if system not in {_SYSTEM_V, _GNU}:
        return Refusal("ELF file OS ABI invalid")
    if abi_version and not (system == _GNU and abi_version < _ABI_VERSIONS[machine]):
        return Refusal("ELF file ABI version invalid")
    if any(padding):
        return Refusal("nonzero padding in e_ident")
    return None


def judge_mapping(image: LibraryImage, glibc: GlibcVersion, *, stack_is_executable: bool) -> Refusal | None:
    """Judge what is found while a library is mapped, as `_dl_map_object_from_fd` does.

    Raises:
        BinaryError: the tables are damaged in a way that the loader does not look for.

    """
    if words := _judge_segments(image, glibc):
        return Refusal(words)
    if glibc >= _DETECTS_PIE and image.flags_1 & layout.FLAG_1_PIE:
        return Refusal("cannot dynamically load position-independent executable")
    if image.flags_1 & layout.FLAG_1_NO_OPEN:
        return Refusal("shared object cannot be dlopen()ed")
    if glibc >= _REFUSES_EXECUTABLE_STACK and not stack_is_executable and needs_executable_stack(image.elf):
        return Refusal("cannot enable executable stack as shared object requires", errno.EINVAL)
    return None


def _judge_segments(image: LibraryImage, glibc: GlibcVersion) -> str:
    loads = [segment for segment in image.elf.segments if segment.segment_type == layout.SEGMENT_LOAD]
    if misaligned := next(filter(None, (_misalignment(segment, glibc) for segment in loads)), ""):
        return misaligned
    if not loads:
        return "object file has no loadable segments"
    if image.elf.header.file_type != layout.TYPE_SHARED:
        return "cannot dynamically load executable"
    tables = [segment for segment in image.elf.segments if segment.segment_type == layout.SEGMENT_DYNAMIC]
    if not any(segment.file_size and segment.address for segment in tables):
        return "object file has no dynamic section"
    has_code = any(segment.flags & layout.FLAG_SEGMENT_EXECUTABLE for segment in loads)
    size = loads[-1].address + loads[-1].memory_size - loads[0].address
    if (has_code and not image.allows_code) or not 0 < size < _ADDRESS_SPACE:
        return "failed to map segment from shared object"
    return BUS_ERROR if _is_cut_off(image, loads) else ""


def _misalignment(segment: layout.Segment, glibc: GlibcVersion) -> str:
    shift = segment.address - segment.offset
    if glibc >= _CHECKS_PAGES_ONLY:
        return "ELF load command address/offset not page-aligned" if shift % _PAGE else ""
    if segment.alignment % _PAGE:
        return "ELF load command alignment not page-aligned"
    is_proper = not shift & (segment.alignment - 1)
    return "" if is_proper else "ELF load command address/offset not properly aligned"


def _is_cut_off(image: LibraryImage, loads: list[layout.Segment]) -> bool:
    """Whether a page that the loader touches lies behind the end of the file: all of those that it writes to."""
    size = image.elf.reader.size
    last_page = -(-size // _PAGE) * _PAGE
    return any(segment.file_size and segment.offset + segment.file_size > last_page for segment in loads)


def needs_executable_stack(elf: Elf) -> bool:
    """Tell whether code of the file wants to run on the stack, which on x86-64 is so when it does not say."""
    stacks = [segment for segment in elf.segments if segment.segment_type == layout.SEGMENT_GNU_STACK]
    if not stacks:
        return elf.header.machine == layout.MACHINE_X86_64
    return bool(stacks[-1].flags & layout.FLAG_SEGMENT_EXECUTABLE)


def read_interpreter(elf: Elf) -> str:
    """Read which dynamic loader a program asks for (PT_INTERP), "" for one that is linked statically.

    Raises:
        BinaryError: the name is damaged or cut off.

    """
    for segment in elf.segments:
        if segment.segment_type == layout.SEGMENT_INTERPRETER:
            return elf.reader.text(segment.offset, segment.offset + segment.file_size)
    return ""
