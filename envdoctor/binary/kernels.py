"""What the containers of a fatbin can run on, told from the headers of their entries."""

import itertools
from functools import cache
from typing import NamedTuple

from envdoctor.binary.cubin import CUBIN_KEY
from envdoctor.binary.fatbin import (
    FLAG_ARCH_SPECIFIC,
    FLAG_FAMILY_SPECIFIC,
    FLAG_LZ4,
    FLAG_ZSTD,
    KIND_CUBIN,
    KIND_PTX,
    Container,
    Entry,
    make_arch,
)
from envdoctor.binary.reader import Reader
from envdoctor.model.arch import Arch
from envdoctor.model.device_code import KernelCode
from envdoctor.model.versions import PtxIsaVersion

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


class Kernel(NamedTuple):
    """One entry of a container, as plain numbers: there are tens of thousands in an environment, few are different."""

    kind: int
    number: int
    suffix_flags: int
    isa_version: tuple[int, int] | None
    is_stub: bool


def find_kernels(reader: Reader, container: Container) -> tuple[Kernel, ...]:
    """Say what a container can run on, and mark what is there in name only.

    Stubs are cubins whose kernels do nothing but fail, because the source asks for newer hardware, and the cubins
    without kernels that nvcc's device link leaves in a library.
    """
    entries = container.entries
    stubs = _find_empty(reader, entries) or _find_stubs(entries)
    return tuple(
        _kernel(
            entry.kind, entry.number, entry.flags, (entry.major_version, entry.minor_version), entry.offset in stubs
        )
        for entry in entries
    )


@cache
def _kernel(kind: int, number: int, flags: int, version: tuple[int, int], is_stub: bool) -> Kernel:  # noqa: FBT001
    suffix_flags = flags & (FLAG_ARCH_SPECIFIC | FLAG_FAMILY_SPECIFIC)
    return Kernel(kind, number, suffix_flags, version if kind == KIND_PTX else None, is_stub)


@cache
def kernel_code(kernel: Kernel) -> KernelCode:
    """Write one entry in the words of the model."""
    return KernelCode(
        arch=make_arch(kernel.kind, kernel.number, kernel.suffix_flags),
        ptx_isa_version=PtxIsaVersion(*kernel.isa_version) if kernel.isa_version else None,
        is_stub=kernel.is_stub,
    )


def bare_kernel(arch: Arch) -> Kernel:
    """Describe a cubin that stands alone."""
    flags = {"a": FLAG_ARCH_SPECIFIC, "f": FLAG_FAMILY_SPECIFIC, "": 0}[arch.suffix]
    return Kernel(KIND_CUBIN, arch.capability.number, flags, isa_version=None, is_stub=False)


def _find_stubs(entries: tuple[Entry, ...]) -> frozenset[int]:
    """Offsets of the cubins that are far smaller than those for newer architectures of the same source."""
    # Architecture-specific variants often hold other kernels than the cubins beside them.
    plain = sorted(
        (entry.number, entry.uncompressed_size or entry.payload_size, entry.offset)
        for entry in entries
        if entry.kind == KIND_CUBIN and not entry.flags & (FLAG_ARCH_SPECIFIC | FLAG_FAMILY_SPECIFIC)
    )
    if len(plain) < _FEWEST_SIBLINGS:
        return frozenset()
    usual = sorted(size / _relative_size(number) for number, size, _ in plain)[len(plain) // 2]
    # Some sm_100 cubins are not stored twice: give the suspect the benefit. And hardware that is new enough for a
    # kernel stays so: after the first cubin that is no stub, small means small.
    small = itertools.takewhile(lambda item: item[1] / min(_relative_size(item[0]), 1.0) < _STUB_RATIO * usual, plain)
    return frozenset(offset for _, _, offset in small)


@cache
def _relative_size(number: int) -> float:
    return next(size for limit, size in _RELATIVE_SIZES if number < limit)


def _find_empty(reader: Reader, entries: tuple[Entry, ...]) -> frozenset[int]:
    """Offsets of all entries, if none of them holds a kernel; none if one does or cannot be looked into."""
    if all(map(_may_be_empty, entries)) and not any(_has_kernels(reader, entry) for entry in entries):
        return frozenset(entry.offset for entry in entries)
    return frozenset()


def _may_be_empty(entry: Entry) -> bool:
    is_plain = entry.kind == KIND_CUBIN and not entry.flags & (FLAG_LZ4 | FLAG_ZSTD)
    return is_plain and entry.payload_size <= _LARGEST_EMPTY_CUBIN


def _has_kernels(reader: Reader, entry: Entry) -> bool:
    # Every kernel has a section of its own, `.text.` and its name; what is no cubin at all counts as having some.
    cubin = reader.peek(entry.offset + entry.header_size, entry.payload_size)
    return b".text" in cubin or not cubin.startswith(CUBIN_KEY)
