"""Compute capabilities and the architectures that device code is built for.

Which architecture runs on which device is a fact about the world: ask `envdoctor.kb.KnowledgeBase.runs_on`.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class ComputeCapability(NamedTuple):
    """The version of a GPU's instruction set, e.g. 8.6."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> "ComputeCapability":
        """Read ``8.6``.

        Raises:
            ValueError: *text* is not a compute capability.

        """
        if not (match := re.fullmatch(r"(\d{1,2})\.(\d)", text.strip())):
            raise ValueError(f"not a compute capability: {text!r}")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def from_number(cls, number: int) -> "ComputeCapability":
        """Read the number in ``sm_86`` or in a fatbin header: the last digit is the minor."""
        return cls(*divmod(number, 10))

    @property
    def number(self) -> int:
        """The digits of ``sm_86``."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class CodeKind(Enum):
    """The forms in which a fatbin carries kernels; the value is the prefix that nvcc gives the architecture."""

    SASS = "sm"
    PTX = "compute"
    LTO_IR = "lto"


_ARCH = re.compile(r"(sm|compute|lto)_(\d{1,2})(\d)([af]?)")
_KIND_NAMES = frozenset(kind.value for kind in CodeKind)
_SUFFIXES = frozenset({"", "a", "f"})


@dataclass(frozen=True, slots=True, order=True)
class Arch:
    """One architecture that code was built for, e.g. ``sm_90a`` (real) or ``compute_80`` (virtual).

    The suffix `a` marks code for exactly one device, `f` code for a family of devices (CUDA 12.9 and later).
    """

    capability: ComputeCapability
    kind_name: str = "sm"
    suffix: str = ""

    def __post_init__(self) -> None:
        if self.kind_name not in _KIND_NAMES or self.suffix not in _SUFFIXES:
            raise ValueError(f"not an architecture: {str(self)!r}")

    @classmethod
    def parse(cls, text: str) -> "Arch":
        """Read ``sm_90a``, ``compute_80`` or ``lto_80``.

        Raises:
            ValueError: *text* is not an architecture.

        """
        if not (match := _ARCH.fullmatch(text)):
            raise ValueError(f"not an architecture: {text!r}")
        kind, major, minor, suffix = match.groups()
        return cls(ComputeCapability(int(major), int(minor)), kind, suffix)

    @property
    def kind(self) -> CodeKind:
        """Whether this is machine code, PTX or LTO IR."""
        return CodeKind(self.kind_name)

    @property
    def arch_specific(self) -> bool:
        """Whether the code runs on exactly one compute capability (suffix `a`)."""
        return self.suffix == "a"

    @property
    def family_specific(self) -> bool:
        """Whether the code runs on one family of devices (suffix `f`)."""
        return self.suffix == "f"

    def __str__(self) -> str:
        return f"{self.kind_name}_{self.capability.number}{self.suffix}"


def parse_arch_list(text: str) -> tuple[Arch, ...]:
    """Read what `torch.cuda.get_arch_list()` joins by blanks: ``sm_50 sm_60 compute_60``.

    Raises:
        ValueError: a word of *text* is not an architecture.

    """
    return tuple(Arch.parse(word) for word in text.split())


def format_arch_list(archs: tuple[Arch, ...]) -> str:
    """Write architectures as torch and nvcc do, blanks between."""
    return " ".join(map(str, archs))
