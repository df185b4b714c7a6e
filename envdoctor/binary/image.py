"""The device code of one compiled file, whatever its format: ELF, PE, static library, bare fatbin or cubin."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from envdoctor.binary import ar, elf, pe
from envdoctor.binary.cubin import CUBIN_KEY, parse_cubin
from envdoctor.binary.fatbin import (
    CONTAINER_KEY,
    LARGEST_PADDING,
    FatbinError,
    kernel_code,
    parse_container,
    walk_containers,
)
from envdoctor.binary.reader import BinaryError, Reader, WindowReader
from envdoctor.model.facts import ContainerGroup, KernelCode

# Sections of device code, by name in ELF and (cut after eight characters) in PE files, and whether it is input of a
# later device link. cuobjdump reads the second kind with `-all` only.
_FATBIN_SECTIONS = {".nv_fatbin": False, ".nv_fatb": False, "__nv_relfatbin": True, "__nv_rel": True}
_HIP_SECTIONS = frozenset({".hip_fatbin", ".hipFatBinSegment", ".hip_fat", ".hipFatB"})

# Kernels of CUPTI, with which profilers trace those of others: libcupti, and libtorch_cpu, into which it is linked.
_PROFILER_NAMES = (b"__cuda_syscall", b"keplerTraceKernel")
_PROFILER_HEAD = 1 << 14

_SCAN_CHUNK = 1 << 20
_CUBIN_MACHINE = elf.MACHINE_CUDA.to_bytes(2, "little")
_CUBIN_MACHINE_OFFSET = 18
_CUBIN_HEADER_SIZE = 64

# What shares the suffix .so but never carries code for an NVIDIA GPU: 32-bit CUDA ended before Python packages had any.
_ELF_32 = b"\x7fELF\x01"
_MACH_O = (bytes.fromhex("cffaedfe"), bytes.fromhex("cefaedfe"), bytes.fromhex("cafebabe"))
_LINKER_SCRIPTS = (b"/* GNU ld script", b"INPUT", b"GROUP", b"OUTPUT_FORMAT")
_LFS_POINTER = b"version https://git-lfs"


class _Place(NamedTuple):
    """A range of the file that may hold device code."""

    section: str
    start: int
    end: int
    relocatable: bool = False


class _Kernels(NamedTuple):
    """What one container, or one bare cubin, can run on."""

    offset: int
    size: int
    code: tuple[KernelCode, ...]
    is_bare: bool = False
    is_profiler: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What one compiled file carries for GPUs."""

    containers: tuple[ContainerGroup, ...] = ()
    has_hip_code: bool = False
    needed: tuple[str, ...] = ()  # of a library with device code
    damage: tuple[BinaryError, ...] = ()  # where the reading failed; the rest stands


def read_image(reader: Reader, *, deep: bool = False) -> Image:
    """Read the headers of all device code in a file.

    With *deep*, also that which libraries keep in ordinary data sections and hand to the driver themselves.

    Raises:
        BinaryError: it is not a compiled file, or one that cannot be read at all.

    """
    magic = reader.peek(0, 64)
    if magic.startswith((_ELF_32, *_MACH_O, *_LINKER_SCRIPTS)):
        return Image()
    if magic.startswith(elf.MAGIC):
        is_cubin = magic[_CUBIN_MACHINE_OFFSET:][:2] == _CUBIN_MACHINE
        return _read_cubin(reader) if is_cubin else _read_elf(reader, deep=deep)
    if magic.startswith(pe.MAGIC):
        return _read_pe(reader, deep=deep)
    if magic.startswith(CONTAINER_KEY[:4]):
        return _image(_search(reader, (_Place("", 0, reader.size),), ()), None, has_hip_code=False)
    if magic.startswith((ar.MAGIC, ar.THIN_MAGIC)):
        return _read_static_library(reader, deep=deep)
    raise BinaryError(_what_it_is(magic), 0)


def _what_it_is(magic: bytes) -> str:
    if not magic:
        return "an empty file"
    if magic.startswith(_LFS_POINTER):
        return "a Git LFS pointer: the library itself was not downloaded"
    return "not a compiled file" if any(magic) else "a file that begins with zeros"


# --- formats -----------------------------------------------------------------------------------------------------


def _read_cubin(reader: Reader) -> Image:
    code = (KernelCode(parse_cubin(reader)),)
    return Image(containers=(ContainerGroup(code=code, count=1, section=""),))


def _read_elf(reader: Reader, *, deep: bool) -> Image:
    file = elf.parse_elf(reader)
    # The section table stands at the end: before going there, take what lies on the way.
    passed = tuple(_find_embedded(reader, 0, reader.size)) if reader.is_sequential else None
    sections = file.sections
    stored = [section for section in sections if section.section_type != elf.SECTION_NOBITS and section.size]
    fatbins = tuple(_place(section) for section in stored if section.name in _FATBIN_SECTIONS)
    others: tuple[_Place, ...] = ()
    if not sections:
        # Without a section table the loader still works, and so does the search of what it maps.
        loaded = (segment for segment in file.segments if segment.segment_type == elf.SEGMENT_LOAD)
        others = tuple(_Place("PT_LOAD", part.offset, part.offset + part.file_size) for part in loaded)
    elif deep:
        others = tuple(_place(section) for section in stored if _is_elf_data(section))
    has_hip_code = any(section.name in _HIP_SECTIONS for section in sections)
    found = _sort(passed, fatbins, others) if passed is not None else _search(reader, fatbins, others)
    return _image(found, file, has_hip_code=has_hip_code)


def _is_elf_data(section: elf.Section) -> bool:
    is_data = section.flags & elf.FLAG_ALLOCATED and not section.flags & elf.FLAG_EXECUTABLE
    return bool(is_data) and section.section_type == elf.SECTION_PROGBITS and section.name not in _FATBIN_SECTIONS


def _read_pe(reader: Reader, *, deep: bool) -> Image:
    file = pe.parse_pe(reader)
    fatbins = tuple(_place(section) for section in file.sections if section.name in _FATBIN_SECTIONS)
    data = (section for section in file.sections if _is_pe_data(section)) if deep else ()
    has_hip_code = any(section.name in _HIP_SECTIONS for section in file.sections)
    found = _search(reader, fatbins, tuple(_place(section) for section in data))
    return _image(found, file, has_hip_code=has_hip_code)


def _is_pe_data(section: pe.Section) -> bool:
    is_data = section.flags & pe.FLAG_INITIALISED and not section.flags & pe.FLAG_EXECUTABLE
    return bool(is_data) and section.name not in _FATBIN_SECTIONS


def _place(section: elf.Section | pe.Section) -> _Place:
    relocatable = _FATBIN_SECTIONS.get(section.name, False)
    return _Place(section.name, section.offset, section.offset + section.size, relocatable)


def _read_static_library(reader: Reader, *, deep: bool) -> Image:
    """Read all members as one image: whoever links the library gets the code of any of them."""
    groups: list[ContainerGroup] = []
    damage: list[BinaryError] = []
    has_hip_code = False
    try:
        for member in ar.find_members(reader):
            if member.reader.peek(0, 4) != elf.MAGIC:
                continue
            try:
                image = read_image(member.reader, deep=deep)
            except BinaryError as error:
                damage.append(_in_member(member, error))
                continue
            groups += image.containers
            damage += (_in_member(member, error) for error in image.damage)
            has_hip_code = has_hip_code or image.has_hip_code
    except ar.ArError as error:
        damage.append(error)
    return Image(containers=_merge(groups), has_hip_code=has_hip_code, damage=tuple(damage))


def _in_member(member: ar.Member, error: BinaryError) -> BinaryError:
    return BinaryError(f"member `{member.name}`: {error.reason}", error.offset)


def _merge(groups: Iterable[ContainerGroup]) -> tuple[ContainerGroup, ...]:
    counts: Counter[tuple[tuple[KernelCode, ...], bool, str]] = Counter()
    for group in groups:
        counts[group.code, group.relocatable, group.section] += group.count
    return tuple(
        ContainerGroup(code=code, count=count, relocatable=relocatable, section=section)
        for (code, relocatable, section), count in counts.items()
    )


# --- places ------------------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """What a file holds, by place."""

    fatbins: tuple[tuple[_Place, _Kernels], ...]
    others: tuple[tuple[_Place, _Kernels], ...]
    damage: tuple[BinaryError, ...]


def _search(reader: Reader, fatbins: tuple[_Place, ...], others: tuple[_Place, ...]) -> _Found:
    walked = [(place, found) for place in fatbins for found in _walk(reader, place)]
    return _Found(
        fatbins=tuple((place, found) for place, found in walked if isinstance(found, _Kernels)),
        others=tuple((place, found) for place in others for found in _find_embedded(reader, place.start, place.end)),
        damage=tuple(found for _, found in walked if isinstance(found, FatbinError)),
    )


def _walk(reader: Reader, place: _Place) -> Iterator[_Kernels | FatbinError]:
    for found in walk_containers(reader, place.start, min(place.end, reader.size)):
        if isinstance(found, FatbinError):
            yield found
        else:
            yield _Kernels(found.offset, found.size, kernel_code(reader, found))
    if place.end > reader.size:
        yield FatbinError(f"section `{place.section}` is cut off", reader.size)


def _sort(passed: tuple[_Kernels, ...], fatbins: tuple[_Place, ...], others: tuple[_Place, ...]) -> _Found:
    """Sort what was found on the way by the places that became known at the end."""

    def inside(place: _Place) -> Iterator[tuple[_Place, _Kernels]]:
        return ((place, item) for item in passed if place.start <= item.offset < place.end)

    # A cubin seen alone in a section of containers belongs to a container that is damaged.
    in_fatbins = tuple((place, item) for place in fatbins for _, item in inside(place) if not item.is_bare)
    in_others = tuple(found for place in others for found in inside(place))
    damage = (
        FatbinError("not a fatbin container of version 1", gap)
        for place in fatbins
        for gap in _gaps(place, [kernels for in_place, kernels in in_fatbins if in_place is place])
    )
    return _Found(in_fatbins, in_others, tuple(damage))


def _gaps(place: _Place, found: list[_Kernels]) -> Iterator[int]:
    """Offsets in a section of containers from which on more than padding lies between them."""
    ends = [place.start, *(kernels.offset + kernels.size for kernels in found)]
    starts = [*(kernels.offset for kernels in found), place.end]
    return (end for end, start in zip(ends, starts, strict=True) if start - end > LARGEST_PADDING)


def _image(found: _Found, file: elf.Elf | pe.Pe | None, *, has_hip_code: bool) -> Image:
    groups = [_group(place, kernels.code) for place, kernels in found.fatbins]
    if found.fatbins or not any(kernels.is_profiler for _, kernels in found.others):
        groups += (_group(place, kernels.code) for place, kernels in found.others if kernels.code)
    needed = file.needed if file and (groups or has_hip_code) else ()
    return Image(containers=_merge(groups), has_hip_code=has_hip_code, needed=needed, damage=found.damage)


def _group(place: _Place, code: tuple[KernelCode, ...]) -> ContainerGroup:
    return ContainerGroup(code=code, count=1, relocatable=place.relocatable, section=place.section)


def _find_embedded(reader: Reader, start: int, end: int) -> Iterator[_Kernels]:
    """Search a range, in one pass, for containers and bare cubins that do not lie inside others."""
    end = min(end, reader.size)
    done = start
    while start < end:
        chunk = reader.peek(start, min(_SCAN_CHUNK + _CUBIN_HEADER_SIZE, end - start))
        for place in sorted((*_hits(chunk, CONTAINER_KEY), *_hits(chunk, CUBIN_KEY))):
            if place >= _SCAN_CHUNK or start + place < done:
                continue
            kernels = _kernels_at(reader, start + place, end)
            if kernels is not None:
                yield kernels
                done = kernels.offset + kernels.size
        start = max(start + _SCAN_CHUNK, done)


def _hits(chunk: bytes, needle: bytes) -> Iterator[int]:
    place = chunk.find(needle)
    while place >= 0:
        yield place
        place = chunk.find(needle, place + len(needle))


def _kernels_at(reader: Reader, offset: int, end: int) -> _Kernels | None:
    """Read what a key promises; keys that stand there by chance are no fault of the file."""
    try:
        if reader.peek(offset, len(CONTAINER_KEY)) == CONTAINER_KEY:
            return _container_at(reader, offset, end)
        return _cubin_at(reader, offset, end)
    except BinaryError:
        return None


def _container_at(reader: Reader, offset: int, end: int) -> _Kernels:
    container = parse_container(reader, offset, end)
    return _Kernels(offset, container.size, kernel_code(reader, container))


def _cubin_at(reader: Reader, offset: int, end: int) -> _Kernels | None:
    window = WindowReader(reader, offset, end - offset)
    if window.read(_CUBIN_MACHINE_OFFSET, 2) != _CUBIN_MACHINE:
        return None
    arch = parse_cubin(window)
    head = window.peek(0, _PROFILER_HEAD)
    is_profiler = any(name in head for name in _PROFILER_NAMES)
    return _Kernels(offset, _CUBIN_HEADER_SIZE, (KernelCode(arch),), is_bare=True, is_profiler=is_profiler)
