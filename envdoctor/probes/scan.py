"""The device code of whatever files a user names: libraries, folders of them, wheels, fatbins and cubins."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from envdoctor.binary.image import Image
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.probes.reading import Reading, read_library

if TYPE_CHECKING:  # without cards, nothing is asked of the knowledge base
    from envdoctor.kb import Coverage
    from envdoctor.kb.gpu_names import GpuModel

_COMPILED = re.compile(r"\.(so(\.[0-9.]+)?|pyd|dll|a|o|fatbin|cubin)$", re.IGNORECASE)
_WHEEL_SUFFIXES = (".whl", ".zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """What one file holds, and how it fares on each card that was named."""

    path: str  # of a member of a wheel: as if the wheel were a folder
    is_named: bool  # by the user, and not found in a folder or wheel
    size: int
    image: Image
    unreadable: str
    coverage: "tuple[Coverage, ...]"

    @property
    def is_telling(self) -> bool:
        """Whether there is something to say about it."""
        return bool(self.image.containers or self.image.has_hip_code or self.unreadable or self.is_named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What was found below all paths."""

    cards: "tuple[GpuModel, ...]"
    files: tuple[ScannedFile, ...]
    deep: bool  # data sections were searched too

    @property
    def unreadable(self) -> tuple[ScannedFile, ...]:
        """The files of which at least a part could not be read."""
        return tuple(file for file in self.files if file.unreadable)


def scan(paths: Iterable[str], gpus: tuple[str, ...], *, deep: bool) -> Scan:
    """Read every compiled file that is named, or lies in a folder or wheel that is named.

    Raises:
        UnknownGpuError: no card of a name is known.

    """
    scanner = _Scanner(cards=_find_cards(gpus), deep=deep)
    files = tuple(file for path in paths for file in scanner.scan(path))
    return Scan(cards=scanner.cards, files=files, deep=deep)


def _find_cards(names: tuple[str, ...]) -> "tuple[GpuModel, ...]":
    if not names:
        return ()
    from envdoctor import kb

    return tuple(kb.load().find_gpu(name) for name in names)


@dataclass(frozen=True, kw_only=True)
class _Scanner:
    cards: "tuple[GpuModel, ...]"
    deep: bool

    def scan(self, path: str) -> Iterator[ScannedFile]:
        if not os.path.isdir(path):
            yield from self._scan_file(path, is_named=True)
            return
        locked: list[OSError] = []
        for file in _distinct(_find_files(path, locked.append)):
            yield from self._scan_file(file, is_named=False)
        for error in locked:
            yield self._describe(error.filename, Reading(0, Image(), f"{error.strerror}"), is_named=False)

    def _scan_file(self, path: str, *, is_named: bool) -> Iterator[ScannedFile]:
        if path.endswith(_WHEEL_SUFFIXES):
            yield from self._scan_wheel(path)
        else:
            yield self._describe(path, read_library(open_file(path), deep=self.deep), is_named=is_named)

    def _scan_wheel(self, path: str) -> Iterator[ScannedFile]:
        from envdoctor.binary.wheel import find_members

        try:
            with _open_wheel(path) as file:
                for member in find_members(file):
                    if _COMPILED.search(member.name):
                        reading = read_library(member.open(), deep=self.deep)
                        yield self._describe(f"{path}/{member.name}", reading, is_named=False)
        except BinaryError as error:
            yield self._describe(path, Reading(0, Image(), str(error)), is_named=True)
        except OSError as error:
            yield self._describe(path, Reading(0, Image(), f"{error.strerror}"), is_named=True)

    def _describe(self, path: str, reading: Reading, *, is_named: bool) -> ScannedFile:
        return ScannedFile(path=path, is_named=is_named, coverage=self._cover(reading.image), **reading._asdict())

    def _cover(self, image: Image) -> "tuple[Coverage, ...]":
        if not self.cards:
            return ()
        from envdoctor import kb

        return tuple(kb.load().coverage(image.containers, card.compute_capability) for card in self.cards)


def _open_wheel(path: str) -> BinaryIO:
    # Opening a pipe would wait for a writer.
    if not os.path.isfile(path):
        raise BinaryError("not a regular file", 0)
    return open(path, "rb")


def _find_files(folder: str, note_locked: Callable[[OSError], None]) -> Iterator[str]:
    for root, folders, names in os.walk(folder, onerror=note_locked):
        folders.sort()
        yield from (os.path.join(root, name) for name in sorted(names) if _is_read(name))


def _is_read(name: str) -> bool:
    return bool(_COMPILED.search(name)) or name.endswith(_WHEEL_SUFFIXES[0])


def _distinct(paths: Iterable[str]) -> Iterator[str]:
    """Take every file once, by its first name."""
    seen = set()
    for path in paths:
        if (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield path
