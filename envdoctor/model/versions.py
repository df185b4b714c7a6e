"""Versions of drivers and of CUDA: two types, because they are two numbers that are often taken for one another."""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import NamedTuple

_DRIVER_RELEASE = re.compile(r"\d{3}(\.\d{1,9}){0,3}")
_CUDA_NUMBERS = range(1000, 100_000)


@total_ordering
@dataclass(frozen=True, slots=True)
class DriverRelease:
    """The release of the NVIDIA driver, e.g. 550.54.15.

    Not the "CUDA Version" of nvidia-smi: that is a `CudaVersion`.
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> "DriverRelease":
        """Read ``550.54.15``, or ``550`` for the first release of a branch.

        Raises:
            ValueError: *text* is not a driver release.

        """
        return cls(text.strip())

    def __post_init__(self) -> None:
        if not _DRIVER_RELEASE.fullmatch(self.text):
            raise ValueError(f"not a driver release: {self.text!r}")

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers, e.g. (550, 54, 15)."""
        return tuple(int(part) for part in self.text.split("."))

    @property
    def branch(self) -> int:
        """The branch, e.g. 550 (NVIDIA writes R550)."""
        return self.release[0]

    def __lt__(self, other: "DriverRelease") -> bool:
        return self.release < other.release

    def __str__(self) -> str:
        return self.text


class CudaVersion(NamedTuple):
    """A version of CUDA, e.g. 12.4: of a toolkit, a build, a runtime, or the newest that a driver supports."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> "CudaVersion":
        """Read ``12.4``, ``12.4.99`` or ``12`` (the patch is dropped: compatibility is decided by major and minor).

        Raises:
            ValueError: *text* is not a CUDA version.

        """
        if not (match := re.fullmatch(r"(\d{1,2})(?:\.(\d{1,2}))?(?:\.\d+)*", text.strip())):
            raise ValueError(f"not a CUDA version: {text!r}")
        return cls(int(match[1]), int(match[2] or 0))

    @classmethod
    def from_number(cls, number: int) -> "CudaVersion":
        """Read the number of `cuDriverGetVersion`, e.g. 12040.

        Raises:
            ValueError: *number* is not that of a CUDA version.

        """
        if number not in _CUDA_NUMBERS:
            raise ValueError(f"not the number of a CUDA version: {number}")
        return cls(number // 1000, number % 1000 // 10)

    @property
    def tag(self) -> str:
        """How PyTorch names a build for this version in local versions and index URLs, e.g. ``cu124``."""
        return f"cu{self.major}{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class PtxIsaVersion(NamedTuple):
    """The version of the PTX language, e.g. 8.5; a driver compiles PTX up to the version of its own CUDA."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> "PtxIsaVersion":
        """Read ``8.5``.

        Raises:
            ValueError: *text* is not such a version.

        """
        if not (match := re.fullmatch(r"(\d+)\.(\d+)", text)):
            raise ValueError(f"not a PTX ISA version: {text!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"
