"""Fatbins: the containers in which a compiled library carries CUDA kernels for several architectures.

NVIDIA does not document the layout. It was observed with nvcc 11.8 to 13.0 (fixtures/binaries/build.sh) and checked
against `cuobjdump -all` on the libraries of fixtures/wheel_archs.json, built by CUDA 9.0 to 13.2. Everything that is
asked here stands in the headers, which are never compressed.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from envdoctor.binary.reader import BinaryError, Reader
from envdoctor.model.arch import Arch, CodeKind, ComputeCapability

# Magic, version and header size, which have always been 1 and 16: long enough not to occur by chance.
CONTAINER_KEY = bytes.fromhex("50ed55ba01001000")

_CONTAINER = struct.Struct("<8sQ")  # key, size of what follows
# Between them: offset of the options, offset and length of the identifier, and a field that is 0 but for LTO IR.
_ENTRY = struct.Struct("<HHIQI4xHHI8xQ8xQ")
_ENTRY_VERSION = 0x0101

KIND_PTX = 1
KIND_CUBIN = 2
KIND_LTO_IR = 8
_KINDS = {KIND_PTX: CodeKind.PTX, KIND_CUBIN: CodeKind.SASS, KIND_LTO_IR: CodeKind.LTO_IR}

FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_ARCH_SPECIFIC = 0x100000
FLAG_FAMILY_SPECIFIC = 0x200000

_KNOWN_ARCHITECTURES = range(10, 1000)
_MOST_ENTRIES = 4096  # 26 is the most that was seen
# In one place: 24,000 is the most that was seen, in the libcufft.so.12 of CUDA 13.
MOST_CONTAINERS = 100_000
LARGEST_PADDING = 4096


class FatbinError(BinaryError):
    """The bytes are not a fatbin, or one of an unknown version."""


class Entry(NamedTuple):
    """The kernels of one source file for one architecture: what the header of an entry says."""

    offset: int
    kind: int
    entry_version: int
    header_size: int
    payload_size: int
    compressed_size: int  # 0 when the payload is not compressed
    minor_version: int
    major_version: int  # PTX: the ISA version
    number: int  # of the architecture, e.g. 90
    flags: int
    uncompressed_size: int  # 0 when the payload is not compressed


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
        if len(header) < _ENTRY.size:
            raise FatbinError("the header of a fatbin entry is cut off", place)
        entry = Entry._make((place, *_ENTRY.unpack_from(header)))
        if fault := _find_fault(entry):
            raise FatbinError(fault, place)
        place += entry.header_size + entry.payload_size
        if place > end or len(entries) == _MOST_ENTRIES:
            raise FatbinError("the entries of a fatbin container reach beyond it", entry.offset)
        entries.append(entry)
        header = reader.peek(place, _ENTRY.size) if place < end else b""
    return Container(offset, _CONTAINER.size + size, tuple(entries))


def _find_fault(entry: Entry) -> str:
    if entry.entry_version != _ENTRY_VERSION or entry.header_size < _ENTRY.size:
        return "not a fatbin entry of a known version"
    if entry.kind not in _KINDS:
        return f"a fatbin entry of unknown kind {entry.kind}"
    return "" if entry.number in _KNOWN_ARCHITECTURES else f"a fatbin entry for architecture {entry.number}"


def make_arch(kind: int, number: int, flags: int) -> Arch:
    """Name the architecture of an entry; its suffix stands among the flags."""
    suffix = "a" if flags & FLAG_ARCH_SPECIFIC else "f" if flags & FLAG_FAMILY_SPECIFIC else ""
    return Arch(ComputeCapability.from_number(number), _KINDS[kind].value, suffix)


def walk_containers(reader: Reader, start: int, end: int) -> Iterator[Container | FatbinError]:
    """Go through a section of containers, which lie one after another.

    Damage is yielded as an error, and the walk goes on at the next container; after very many it ends. Between
    containers Windows linkers leave zeros, to align them to 16 bytes, and after the last one up to a page.
    """
    place = start
    for _ in range(MOST_CONTAINERS):
        if place >= end:
            return
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
    yield FatbinError(f"more than {MOST_CONTAINERS:,} containers", place)


def _is_padding(reader: Reader, start: int, end: int) -> bool:
    return end - start <= LARGEST_PADDING and not any(reader.peek(start, end - start))
