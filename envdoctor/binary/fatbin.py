"""Fatbins: the containers in which a compiled library carries CUDA kernels for several architectures.

NVIDIA does not document the layout. It was observed with nvcc 11.8 to 13.0 (fixtures/binaries/build.sh) and checked
against `cuobjdump -all` on the libraries of fixtures/wheel_archs.json, built by CUDA 9.0 to 13.2. Everything that is
asked here stands in the headers, which are never compressed.
"""

import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.reader import BinaryError, Reader, WindowReader
from envdoctor.model.arch import Arch, CodeKind, ComputeCapability
from envdoctor.model.facts import KernelCode
from envdoctor.model.versions import PtxIsaVersion

# Magic, version and header size, which have always been 1 and 16: long enough not to occur by chance.
CONTAINER_KEY = bytes.fromhex("50ed55ba01001000")

_CONTAINER = struct.Struct("<8sQ")  # key, size of what follows
# kind, version, header size, payload size, compressed size, offset of options, minor and major version, architecture,
# offset and length of the identifier, flags, unknown, uncompressed size
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_ENTRY_VERSION = 0x0101
_KINDS = {1: CodeKind.PTX, 2: CodeKind.SASS, 8: CodeKind.LTO_IR}

FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_ARCH_SPECIFIC = 0x100000
FLAG_FAMILY_SPECIFIC = 0x200000

_KNOWN_ARCHITECTURES = range(10, 1000)
_MOST_ENTRIES = 4096  # 26 is the most that was seen
LARGEST_PADDING = 4096


class FatbinError(BinaryError):
    """The bytes are not a fatbin, or one of an unknown version."""


class Entry(NamedTuple):
    """The kernels of one source file for one architecture: what the header of an entry says."""

    offset: int
    arch: Arch
    version: tuple[int, int]  # PTX: the ISA version
    flags: int
    header_size: int
    payload_size: int
    compressed_size: int  # 0 when the payload is not compressed
    uncompressed_size: int  # 0 when the payload is not compressed

    @property
    def kernel_size(self) -> int:
        """The size of the code itself, whether or not it is compressed in the file."""
        return self.uncompressed_size or self.payload_size


class Container(NamedTuple):
    """The kernels of one source file: one entry per architecture that it was compiled for."""

    offset: int
    size: int  # with its header
    entries: tuple[Entry, ...]


def parse_container(reader: Reader, offset: int, limit: int) -> Container:
    """Read the headers of the container at *offset*, which must end before *limit*.

    Raises:
        FatbinError: there is no container, or not a whole one.

    """
    # The first entry nearly always follows at once: one read for both headers.
    head = reader.peek(offset, _CONTAINER.size + _ENTRY.size)
    if len(head) < _CONTAINER.size:
        raise FatbinError("the header of a fatbin container is cut off", offset)
    key, size = _CONTAINER.unpack_from(head)
    if key != CONTAINER_KEY:
        raise FatbinError("not a fatbin container of version 1", offset)
    place = offset + _CONTAINER.size
    end = place + size
    if end > limit:
        raise FatbinError(f"a fatbin container of {size} bytes reaches beyond its section", offset)

    entries: list[Entry] = []
    header = head[_CONTAINER.size :]
    while place < end:
        entry = _parse_entry(header, place)
        place += entry.header_size + entry.payload_size
        if place > end or len(entries) == _MOST_ENTRIES:
            raise FatbinError("the entries of a fatbin container reach beyond it", entry.offset)
        entries.append(entry)
        header = reader.peek(place, _ENTRY.size) if place < end else b""
    return Container(offset, _CONTAINER.size + size, tuple(entries))


def _parse_entry(header: bytes, offset: int) -> Entry:
    if len(header) < _ENTRY.size:
        raise FatbinError("the header of a fatbin entry is cut off", offset)
    fields = _ENTRY.unpack_from(header)
    kind, version, header_size, payload_size, compressed_size, _, minor, major, number, _, _, flags, _, full_size = (
        fields
    )
    if version != _ENTRY_VERSION or header_size < _ENTRY.size:
        raise FatbinError("not a fatbin entry of a known version", offset)
    if kind not in _KINDS:
        raise FatbinError(f"a fatbin entry of unknown kind {kind}", offset)
    if number not in _KNOWN_ARCHITECTURES:
        raise FatbinError(f"a fatbin entry for architecture {number}", offset)
    suffix = "a" if flags & FLAG_ARCH_SPECIFIC else "f" if flags & FLAG_FAMILY_SPECIFIC else ""
    arch = _arch(number, _KINDS[kind], suffix)
    return Entry(offset, arch, (major, minor), flags, header_size, payload_size, compressed_size, full_size)


@cache
def _arch(number: int, kind: CodeKind, suffix: str) -> Arch:
    return Arch(ComputeCapability.from_number(number), kind.value, suffix)


def walk_containers(reader: Reader, start: int, end: int) -> Iterator[Container | FatbinError]:
    """Go through a section of containers, which lie one after another.

    Damage is yielded as an error, and the walk goes on at the next container. Between containers Windows linkers leave
    zeros, to align them to 16 bytes, and after the last one up to a page.
    """
    place = start
    while place < end:
        try:
            container = parse_container(reader, place, end)
        except FatbinError as error:
            # What lies between the start of a damaged container and the damage was its own.
            following = reader.find(CONTAINER_KEY, max(place + 1, error.offset), end)
            following = following if following >= 0 else end
            if not _is_padding(reader, place, following):
                yield error
            place = following
            continue
        yield container
        place += container.size


def _is_padding(reader: Reader, start: int, end: int) -> bool:
    return end - start <= LARGEST_PADDING and not any(reader.peek(start, end - start))


# --- what the kernels are ----------------------------------------------------------------------------------------

# Bytes that an instruction takes, relative to Volta and later (16 bytes): Kepler has one control word per seven
# instructions of 8 bytes, Maxwell and Pascal one per three (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture
# via Microbenchmarking", 2018, section 2.1). From sm_100 on cubins hold much of their content twice (`.nv.merc.*`):
# about 1.6 times the size, measured on the containers of torch 2.8.0 and 2.14.1.
_RELATIVE_SIZES = ((50, 64 / 7 / 16), (70, 32 / 3 / 16), (100, 1.0), (1000, 1.6))

# Flash-attention's containers in torch 2.8.0 and 2.14.1 hold cubins for sm_70 and sm_75 in which every kernel only
# reports failure: 0.05 to 0.45 of the size of their siblings, and all 180 of them are below this line. No other
# container of theirs falls below it except three whose kernels need newer hardware too (bf16, TMA).
_STUB_RATIO = 0.5
_FEWEST_SIBLINGS = 3
_LARGEST_EMPTY_CUBIN = 4096


def kernel_code(reader: Reader, container: Container) -> tuple[KernelCode, ...]:
    """Say what a container can run on, and mark what is there in name only.

    Stubs are cubins whose kernels do nothing but fail, because the source asks for newer hardware, and the cubins
    without kernels that nvcc's device link leaves in a library.
    """
    stubs = _find_empty(reader, container.entries) or _find_stubs(container.entries)
    return tuple(
        KernelCode(
            arch=entry.arch,
            ptx_isa_version=PtxIsaVersion(*entry.version) if entry.arch.kind is CodeKind.PTX else None,
            is_stub=entry.offset in stubs,
        )
        for entry in container.entries
    )


def _find_stubs(entries: tuple[Entry, ...]) -> frozenset[int]:
    """Offsets of the cubins that are far smaller than those for newer architectures of the same source."""
    # Architecture-specific variants often hold other kernels than the cubins beside them.
    plain = [entry for entry in entries if entry.arch.kind is CodeKind.SASS and not entry.arch.suffix]
    plain.sort(key=lambda entry: entry.arch)
    if len(plain) < _FEWEST_SIBLINGS:
        return frozenset()
    usual = sorted(entry.kernel_size / _relative_size(entry.arch) for entry in plain)[len(plain) // 2]
    stubs = []
    for entry in plain:
        # Some sm_100 cubins are not stored twice: give the suspect the benefit.
        relative = min(_relative_size(entry.arch), 1.0)
        if entry.kernel_size / relative >= _STUB_RATIO * usual:
            # Hardware that is new enough for a kernel stays so: from here on small means small.
            break
        stubs.append(entry.offset)
    return frozenset(stubs)


def _relative_size(arch: Arch) -> float:
    return next(size for limit, size in _RELATIVE_SIZES if arch.capability.number < limit)


def _find_empty(reader: Reader, entries: tuple[Entry, ...]) -> frozenset[int]:
    """Offsets of all entries, if none of them holds a kernel; none if one does or cannot be looked into."""
    if all(_is_empty(reader, entry) for entry in entries):
        return frozenset(entry.offset for entry in entries)
    return frozenset()


def _is_empty(reader: Reader, entry: Entry) -> bool:
    compressed = entry.flags & (FLAG_LZ4 | FLAG_ZSTD)
    if entry.arch.kind is not CodeKind.SASS or compressed or entry.payload_size > _LARGEST_EMPTY_CUBIN:
        return False
    cubin = WindowReader(reader, entry.offset + entry.header_size, entry.payload_size)
    try:
        sections = parse_elf(cubin).sections
    except BinaryError:
        return False
    return not any(section.name.startswith(".text") for section in sections)
