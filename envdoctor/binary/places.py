"""The places of a file that may hold device code, and the search of them."""

from collections.abc import Iterator
from typing import NamedTuple

from envdoctor.binary.cubin import CUBIN_KEY, parse_cubin
from envdoctor.binary.elf import MACHINE_CUDA
from envdoctor.binary.fatbin import (
    CONTAINER_KEY,
    LARGEST_PADDING,
    MOST_CONTAINERS,
    FatbinError,
    parse_container,
    walk_containers,
)
from envdoctor.binary.kernels import Kernel, bare_kernel, find_kernels
from envdoctor.binary.reader import BinaryError, Reader, WindowReader

CUBIN_MACHINE = MACHINE_CUDA.to_bytes(2, "little")
CUBIN_MACHINE_OFFSET = 18
_CUBIN_HEADER_SIZE = 64
_CHUNK = 1 << 20

# Kernels of CUPTI, with which profilers trace those of others: in libcupti, and in libtorch_cpu, which is linked to it.
_PROFILER_NAMES = (b"__cuda_syscall", b"keplerTraceKernel")
_PROFILER_HEAD = 1 << 14


class Place(NamedTuple):
    """A range of the file."""

    section: str
    start: int
    end: int
    relocatable: bool = False


class Find(NamedTuple):
    """One container, or one bare cubin."""

    offset: int
    size: int
    kernels: tuple[Kernel, ...]
    is_bare: bool = False
    is_profiler: bool = False


class Findings(NamedTuple):
    """What a file holds, by place."""

    in_fatbins: tuple[tuple[Place, Find], ...]
    in_data: tuple[tuple[Place, Find], ...]
    damage: tuple[BinaryError, ...]


def search(reader: Reader, fatbins: tuple[Place, ...], data: tuple[Place, ...]) -> Findings:
    """Walk the sections of containers, and search the other places for containers and bare cubins."""
    walked = [(place, found) for place in fatbins for found in _walk(reader, place)]
    searched = [(place, found) for place in data for found in find_embedded(reader, place.start, place.end)]
    return Findings(
        in_fatbins=tuple((place, found) for place, found in walked if isinstance(found, Find)),
        in_data=tuple((place, found) for place, found in searched if isinstance(found, Find)),
        damage=tuple(found for _, found in (*walked, *searched) if isinstance(found, FatbinError)),
    )


def sort(passed: tuple[Find | FatbinError, ...], fatbins: tuple[Place, ...], data: tuple[Place, ...]) -> Findings:
    """Sort what was found on the way through a file by the places that became known at its end."""
    finds = tuple(find for find in passed if isinstance(find, Find))
    # A cubin seen alone in a section of containers belongs to a container that is damaged.
    in_fatbins = [(place, find) for place in fatbins for find in _inside(place, finds) if not find.is_bare]
    gaps = (
        FatbinError("not a fatbin container of version 1", gap)
        for place in fatbins
        for gap in _gaps(place, [find for in_place, find in in_fatbins if in_place is place])
    )
    in_data = ((place, find) for place in data for find in _inside(place, finds))
    too_many = (error for error in passed if isinstance(error, FatbinError))
    return Findings(tuple(in_fatbins), tuple(in_data), (*gaps, *too_many))


def _inside(place: Place, passed: tuple[Find, ...]) -> Iterator[Find]:
    return (find for find in passed if place.start <= find.offset < place.end)


def _gaps(place: Place, found: list[Find]) -> Iterator[int]:
    """Offsets in a section of containers from which on more than padding lies between them."""
    ends = [place.start, *(find.offset + find.size for find in found)]
    starts = [*(find.offset for find in found), place.end]
    return (end for end, start in zip(ends, starts, strict=True) if start - end > LARGEST_PADDING)


def _walk(reader: Reader, place: Place) -> Iterator[Find | FatbinError]:
    for found in walk_containers(reader, place.start, min(place.end, reader.size)):
        if isinstance(found, FatbinError):
            yield found
        else:
            yield Find(found.offset, found.size, find_kernels(reader, found))
    if place.end > reader.size:
        yield FatbinError(f"section `{place.section}` is cut off", reader.size)


def find_embedded(reader: Reader, start: int, end: int) -> Iterator[Find | FatbinError]:
    """Search a range, in one pass, for containers and bare cubins that do not lie inside others.

    After very many the search ends with an error.
    """
    end = min(end, reader.size)
    done = start
    tried = 0
    while start < end:
        chunk = reader.peek(start, min(_CHUNK + _CUBIN_HEADER_SIZE, end - start))
        for place in sorted((*_hits(chunk, CONTAINER_KEY), *_hits(chunk, CUBIN_KEY))):
            if place >= _CHUNK or start + place < done:
                continue
            if tried == MOST_CONTAINERS:
                yield FatbinError(f"more than {MOST_CONTAINERS:,} containers and cubins", start + place)
                return
            tried += 1
            find = _find_at(reader, start + place, end)
            if find is not None:
                yield find
                done = find.offset + find.size
        start = max(start + _CHUNK, done)


def _hits(chunk: bytes, needle: bytes) -> Iterator[int]:
    place = chunk.find(needle)
    while place >= 0:
        yield place
        place = chunk.find(needle, place + len(needle))


def _find_at(reader: Reader, offset: int, end: int) -> Find | None:
    """Read what a key promises; keys that stand there by chance are no fault of the file."""
    try:
        if reader.peek(offset, len(CONTAINER_KEY)) == CONTAINER_KEY:
            container = parse_container(reader, offset, end)
            return Find(offset, container.size, find_kernels(reader, container))
        return _cubin_at(reader, offset, end)
    except BinaryError:
        return None


def _cubin_at(reader: Reader, offset: int, end: int) -> Find | None:
    window = WindowReader(reader, offset, end - offset)
    if window.read(CUBIN_MACHINE_OFFSET, len(CUBIN_MACHINE)) != CUBIN_MACHINE:
        return None
    kernels = (bare_kernel(parse_cubin(window)),)
    head = window.peek(0, _PROFILER_HEAD)
    is_profiler = any(name in head for name in _PROFILER_NAMES)
    return Find(offset, _CUBIN_HEADER_SIZE, kernels, is_bare=True, is_profiler=is_profiler)
