"""Files and folders that others made: whatever lies there, nothing waits for it and nothing fills the memory."""

import errno
import glob
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# Installers list every file that they install: a few megabytes for the largest distributions.
_LARGEST = 64 << 20
# Files of /proc and /sys have no size until they are read.
_LARGEST_WITHOUT_SIZE = 1 << 20


def read_file(path: str | os.PathLike[str], *, largest: int = _LARGEST) -> bytes:
    """Read the whole of a regular file.

    Raises:
        OSError: it cannot be read, or is far larger than its kind.

    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
        return file.read(size or _LARGEST_WITHOUT_SIZE)


def read_text(path: str | os.PathLike[str], *, largest: int = _LARGEST) -> str:
    """Read the whole of a text that may name files, whose names need not be UTF-8.

    Raises:
        OSError: see `read_file`.

    """
    return as_file_name(read_file(path, largest=largest).decode("utf-8", "surrogateescape"))


def read_head(path: str | os.PathLike[str], size: int) -> bytes:
    """Read the beginning of a regular file.

    Raises:
        OSError: it cannot be read.

    """
    with open_file(path) as file:
        return file.read(size)


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Find what matches in a folder, in order; nothing where it cannot be listed."""
    return sorted(folder / name for name in glob.glob(pattern, root_dir=folder))


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether this user cannot read a file, or list a folder and enter what is in it; no for what is not there.

    Behind a folder that this user cannot enter, anything may be there.
    """
    try:
        os.stat(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    need = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
    return not os.access(path, need, effective_ids=True)


def as_file_name(text: str) -> str:
    """Make a text that names a file one that a file can have: the system refuses to be asked about any other."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        text = text.encode(sys.getfilesystemencoding(), "replace").decode(sys.getfilesystemencoding())
    return text.replace("\0", "?")


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file.

    Raises:
        OSError: it cannot be read.

    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        # Pipes and devices need not have an end.
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        yield file


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a pipe waits for a writer.
    return os.open(path, flags | os.O_NONBLOCK)
