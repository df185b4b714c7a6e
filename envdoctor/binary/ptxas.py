"""What a `ptxas` program says about itself, without running it: its release and the targets that it accepts."""

import re
from typing import NamedTuple

from envdoctor.binary.elf import Elf
from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.versions import CudaVersion

# What `ptxas --version` prints.
_RELEASE = re.compile(rb"Cuda compilation tools, release (\d{1,2}\.\d{1,2}), V")
# The table behind `--gpu-name` has three names per target: sm_90a, compute_90a, lto_90a. Each may be lost in the tail
# of another string (so no NUL is asked for before it), and `sm_` also names targets that were given up. The others
# together are the targets in `ptxas --help`: observed in the ptxas of CUDA 12.0, 12.1, 12.4, 12.8, 12.9, 13.0, 13.4.
_NUMBER = re.compile(rb"_(\d{2,3})([af]?)\0")
_PREFIXES = (b"compute", b"lto")
_LONGEST_TEXT = 64


class PtxasLabel(NamedTuple):
    """The release of CUDA that a ptxas belongs to, and the architectures that it assembles for, in order."""

    release: CudaVersion | None  # None when it names none
    targets: tuple[Arch, ...]  # () when it has no table of them


def read_label(program: Elf) -> PtxasLabel:
    """Search the constants of a ptxas for what it prints with ``--version`` and ``--help``.

    Raises:
        BinaryError: the file is damaged or cut off.

    """
    release: CudaVersion | None = None
    targets: set[Arch] = set()
    if constants := program.section(".rodata"):
        for _, chunk in program.reader.chunks(constants.offset, constants.offset + constants.size, _LONGEST_TEXT):
            targets.update(_targets(chunk))
            if release is None and (match := _RELEASE.search(chunk)):
                release = CudaVersion.parse(match[1].decode())
    return PtxasLabel(release, tuple(sorted(targets)))


def _targets(text: bytes) -> set[Arch]:
    return {
        Arch(ComputeCapability.from_number(int(match[1])), "sm", match[2].decode())
        for match in _NUMBER.finditer(text)
        if text.endswith(_PREFIXES, 0, match.start())
    }
