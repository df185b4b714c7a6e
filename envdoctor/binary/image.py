"""The device code of one compiled file, whatever its format: ELF, PE, static library, bare fatbin or cubin."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from envdoctor.binary import ar, elf, pe
from envdoctor.binary.cubin import parse_cubin
from envdoctor.binary.fatbin import CONTAINER_KEY
from envdoctor.binary.kernels import kernel_code
from envdoctor.binary.places import (
    CUBIN_MACHINE,
    CUBIN_MACHINE_OFFSET,
    Findings,
    Place,
    find_embedded,
    search,
    sort,
)
from envdoctor.binary.reader import BinaryError, Reader
from envdoctor.model.device_code import ContainerGroup, KernelCode

# Sections of device code, by name in ELF and (cut after eight characters) in PE files, and whether it is input of a
# later device link. cuobjdump reads the second kind with `-all` only.
_FATBIN_SECTIONS = {".nv_fatbin": False, ".nv_fatb": False, "__nv_relfatbin": True, "__nv_rel": True}
_HIP_SECTIONS = frozenset({".hip_fatbin", ".hipFatBinSegment", ".hip_fat", ".hipFatB"})

# What shares the suffix .so but never carries code for an NVIDIA GPU: 32-bit CUDA ended before Python packages had any.
_ELF_32 = b"\x7fELF\x01"
_MACH_O = (bytes.fromhex("cffaedfe"), bytes.fromhex("cefaedfe"), bytes.fromhex("cafebabe"))
_LINKER_SCRIPTS = (b"/* GNU ld script", b"INPUT", b"GROUP", b"OUTPUT_FORMAT")
_LFS_POINTER = b"version https://git-lfs"


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
        is_cubin = magic[CUBIN_MACHINE_OFFSET:].startswith(CUBIN_MACHINE)
        return _read_cubin(reader) if is_cubin else _read_elf(reader, deep=deep)
    if magic.startswith(pe.MAGIC):
        return _read_pe(reader, deep=deep)
    if magic.startswith(CONTAINER_KEY[:4]):
        return _image(search(reader, (Place("", 0, reader.size),), ()), None, has_hip_code=False)
    if magic.startswith((ar.MAGIC, ar.THIN_MAGIC)):
        return _read_static_library(reader, deep=deep)
    raise BinaryError(_what_it_is(magic), 0)


def _what_it_is(magic: bytes) -> str:
    if not magic:
        return "an empty file"
    if magic.startswith(_LFS_POINTER):
        return "a Git LFS pointer: the library itself was not downloaded"
    return "not a compiled file" if any(magic) else "a file that begins with zeros"


def _read_cubin(reader: Reader) -> Image:
    code = (KernelCode(parse_cubin(reader)),)
    return Image(containers=(ContainerGroup(code=code, count=1, section="", bare=True),))


def _read_elf(reader: Reader, *, deep: bool) -> Image:
    file = elf.parse_elf(reader)
    # The section table stands at the end: before going there, take what lies on the way.
    passed = tuple(find_embedded(reader, 0, reader.size)) if reader.is_sequential else None
    sections = file.sections
    stored = [section for section in sections if section.section_type != elf.SECTION_NOBITS and section.size]
    fatbins = tuple(_place(section) for section in stored if section.name in _FATBIN_SECTIONS)
    data: tuple[Place, ...] = ()
    if not sections:
        # Without a section table the loader still works, and so does the search of what it maps.
        loaded = (segment for segment in file.segments if segment.segment_type == elf.SEGMENT_LOAD)
        data = tuple(Place("PT_LOAD", part.offset, part.offset + part.file_size) for part in loaded)
    elif deep:
        data = tuple(_place(section) for section in stored if _is_elf_data(section))
    found = sort(passed, fatbins, data) if passed is not None else search(reader, fatbins, data)
    return _image(found, file, has_hip_code=any(section.name in _HIP_SECTIONS for section in sections))


def _is_elf_data(section: elf.Section) -> bool:
    is_data = section.flags & elf.FLAG_ALLOCATED and not section.flags & elf.FLAG_EXECUTABLE
    return bool(is_data) and section.section_type == elf.SECTION_PROGBITS and section.name not in _FATBIN_SECTIONS


def _read_pe(reader: Reader, *, deep: bool) -> Image:
    file = pe.parse_pe(reader)
    fatbins = tuple(_place(section) for section in file.sections if section.name in _FATBIN_SECTIONS)
    data = tuple(_place(section) for section in file.sections if deep and _is_pe_data(section))
    has_hip_code = any(section.name in _HIP_SECTIONS for section in file.sections)
    return _image(search(reader, fatbins, data), file, has_hip_code=has_hip_code)


def _is_pe_data(section: pe.Section) -> bool:
    is_data = section.flags & pe.FLAG_INITIALISED and not section.flags & pe.FLAG_EXECUTABLE
    return bool(is_data) and section.name not in _FATBIN_SECTIONS


def _place(section: elf.Section | pe.Section) -> Place:
    relocatable = _FATBIN_SECTIONS.get(section.name, False)
    return Place(section.name, section.offset, section.offset + section.size, relocatable)


def _image(found: Findings, file: elf.Elf | pe.Pe | None, *, has_hip_code: bool) -> Image:
    kept = found.in_fatbins
    if found.in_fatbins or not any(find.is_profiler for _, find in found.in_data):
        kept += tuple((place, find) for place, find in found.in_data if find.kernels)
    counts = Counter((find.kernels, place.section, place.relocatable, find.is_bare) for place, find in kept)
    return Image(
        containers=tuple(
            ContainerGroup(
                code=tuple(map(kernel_code, kernels)),
                count=count,
                section=section,
                relocatable=relocatable,
                bare=bare,
            )
            for (kernels, section, relocatable, bare), count in counts.items()
        ),
        has_hip_code=has_hip_code,
        needed=file.needed if file and (kept or has_hip_code) else (),
        damage=found.damage,
    )


# --- static libraries --------------------------------------------------------------------------------------------


def _read_static_library(reader: Reader, *, deep: bool) -> Image:
    """Read all members as one image: whoever links the library gets the code of any of them."""
    images = tuple(_read_members(reader, deep=deep))
    return Image(
        containers=_merge(group for image in images for group in image.containers),
        has_hip_code=any(image.has_hip_code for image in images),
        damage=tuple(error for image in images for error in image.damage),
    )


def _read_members(reader: Reader, *, deep: bool) -> Iterator[Image]:
    try:
        for member in ar.find_members(reader):
            if member.reader.peek(0, 4) == elf.MAGIC:
                yield _read_member(member, deep=deep)
    except BinaryError as error:
        yield Image(damage=(error,))


def _read_member(member: ar.Member, *, deep: bool) -> Image:
    try:
        image = read_image(member.reader, deep=deep)
    except BinaryError as error:
        image = Image(damage=(error,))
    damage = (BinaryError(f"member `{member.name}`: {error.reason}", error.offset) for error in image.damage)
    return replace(image, damage=tuple(damage))


def _merge(groups: Iterable[ContainerGroup]) -> tuple[ContainerGroup, ...]:
    counts: Counter[ContainerGroup] = Counter()
    for group in groups:
        counts[replace(group, count=0)] += group.count
    return tuple(replace(group, count=count) for group, count in counts.items())
