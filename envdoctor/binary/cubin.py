"""Bare cubins: ELF files of one architecture, as `nvcc -cubin` writes them and some libraries embed them.

The layouts were observed with ptxas 11.8 to 13.0 (fixtures/binaries/build.sh): `e_flags` changed its meaning with
sm_100, and the tools of CUDA 13 moved the suffix of the architecture to other places.
"""

from envdoctor.binary.elf import MACHINE_CUDA, Elf, ElfError, Section, parse_elf
from envdoctor.binary.reader import Reader
from envdoctor.model.arch import Arch, ComputeCapability

# What every cubin begins with; e_machine, 190, follows at offset 18.
CUBIN_KEY = b"\x7fELF\x02\x01\x01"

_ABI_BYTE = 7  # EI_OSABI
_ABI_FROM_CUDA_13 = 0x41  # also sm_100 and newer in CUDA 12.8 and 12.9
_OLD_ARCH_SPECIFIC = 0x800
_NEW_ARCH_SPECIFIC = 0x8
# CUPTI's cubins for sm_60 have that bit for another reason, and the first architecture with a suffix is sm_90.
_FIRST_WITH_SUFFIX = 90
_COMPAT_ARCH_SPECIFIC = bytes.fromhex("02090100")
_LARGEST_NOTE = 1 << 16


def parse_cubin(reader: Reader) -> Arch:
    """Tell what architecture a cubin was built for.

    Raises:
        BinaryError: it is not a cubin, or a damaged one.

    """
    elf = parse_elf(reader)
    if elf.header.machine != MACHINE_CUDA:
        raise ElfError("not a cubin", 18)
    if reader.read(_ABI_BYTE, 1)[0] == _ABI_FROM_CUDA_13:
        number = elf.header.flags >> 8 & 0xFF
        suffix = "a" if elf.header.flags & _NEW_ARCH_SPECIFIC else _suffix_in_sections(elf)
    else:
        number = elf.header.flags & 0xFF
        suffix = "a" if elf.header.flags & _OLD_ARCH_SPECIFIC and number >= _FIRST_WITH_SUFFIX else ""
    return Arch(ComputeCapability.from_number(number), "sm", suffix)


def _suffix_in_sections(elf: Elf) -> str:
    """CUDA 13 writes the suffix into an attribute (`a`) or only into the command line that it notes (`f`)."""
    if _COMPAT_ARCH_SPECIFIC in _content(elf, elf.section(".nv.compat")):
        return "a"
    number = elf.header.flags >> 8 & 0xFF
    family = f"sm_{number}f".encode()
    return "f" if family in _content(elf, elf.section(".note.nv.tkinfo")) else ""


def _content(elf: Elf, section: Section | None) -> bytes:
    return elf.reader.peek(section.offset, min(section.size, _LARGEST_NOTE)) if section else b""
