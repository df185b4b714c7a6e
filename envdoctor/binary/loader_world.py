"""The files that glibc's search for libraries meets, opened once for all processes, and its verdict on each."""

import errno
import os
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from envdoctor.binary.library_search import Folder, SearchRules
from envdoctor.binary.loadable import LibraryFile, LibraryImage, Refusal, verify
from envdoctor.model.loading import BUS_ERROR

# Errors of opening after which the loader looks into the next folder (`open_path`).
_PASSED_OVER = frozenset({errno.ENOENT, errno.EACCES, errno.ENOTDIR})


class Files(Protocol):
    """How the process sees the file system."""

    def open(self, path: str) -> LibraryFile:
        """Open a file.

        Raises:
            OSError: the system refuses it.
            BinaryError: what it opens is no file with bytes at offsets.

        """

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder is there."""


class Found(NamedTuple):
    """The file that the search for a library ends with."""

    image: LibraryImage
    path: str
    found_through: str
    folder: str


class Damaged(NamedTuple):
    """A file that ends the search for a library because the loader does not take it."""

    path: str
    words: str


@dataclass(frozen=True)
class World:
    """What all processes of one machine share: files once opened, and who defines which symbol."""

    files: Files
    rules: SearchRules
    outcomes: dict[str, LibraryImage | Refusal | int] = field(default_factory=dict)  # int: errno
    images: dict[Hashable, LibraryImage | Refusal] = field(default_factory=dict)
    folders: dict[str, bool] = field(default_factory=dict)

    def look(self, path: str) -> LibraryImage | Refusal | int:
        """Open a file and verify its headers; the number of the error where it cannot be opened."""
        outcome = self.outcomes.get(path)
        if outcome is None:
            outcome = self.outcomes[path] = self._open(path)
        return outcome

    def _open(self, path: str) -> LibraryImage | Refusal | int:
        try:
            file = self.files.open(path)
        except OSError as exc:
            return exc.errno or errno.EIO
        if file.identity not in self.images:
            self.images[file.identity] = verify(file, self.rules.machine)
        return self.images[file.identity]

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder is there, asking once."""
        if path not in self.folders:
            self.folders[path] = self.files.is_folder(path or ".")
        return self.folders[path]


class Search:
    """One search for a library, and what it met on its way."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.error_number = 0
        self.met_other_class = False

    def try_path(self, path: str, found_through: str, folder: str) -> Found | Damaged | None:
        """Look at one file; None where the search goes on."""
        outcome = self.world.look(path)
        if isinstance(outcome, LibraryImage):
            return Found(outcome, path, found_through, folder)
        if isinstance(outcome, int):
            self.error_number = outcome
            return None
        if outcome.words:
            return Damaged(path, say(path, outcome))
        self.error_number = outcome.error_number
        self.met_other_class |= outcome.is_other_class
        return None

    def try_folders(self, folders: Iterable[Folder]) -> Found | Damaged | None:
        """Look into folders and their subfolders for this processor."""
        for folder in folders:
            for prefix in self._prefixes(folder.path):
                if found := self.try_path(prefix + self.name, folder.found_through, folder.path):
                    return found
                if self.error_number not in _PASSED_OVER:
                    return None
        return None

    def _prefixes(self, folder: str) -> Iterator[str]:
        if not self.world.is_folder(folder):
            self.error_number = errno.ENOENT
            return
        for capability in self.world.rules.capabilities:
            top = capability.partition("/")[0]
            if self.world.is_folder(folder + top) and self.world.is_folder(folder + capability):
                yield f"{folder}{capability}/"
        yield folder


def say(subject: str, refusal: Refusal) -> str:
    """Word a refusal as `dlerror` does."""
    if refusal.words == BUS_ERROR:
        return BUS_ERROR
    reason = f": {os.strerror(refusal.error_number)}" if refusal.error_number else ""
    return f"{subject}: {refusal.words}{reason}"
