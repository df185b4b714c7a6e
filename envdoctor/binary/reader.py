"""Random access to bytes: bounds-checked, and never more of a file in memory than was asked for."""

import os
import stat
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from envdoctor.errors import EnvdoctorError

# The memory of larger pieces comes from the system anew each time, which takes longer than to read into it.
_CHUNK = 1 << 17
_LONGEST_TEXT = 1 << 20


class BinaryError(EnvdoctorError):
    """The bytes are not what their format demands; the offset counts from the start of the file or member."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"{reason} at offset {offset:#x}" if offset else reason)
        self.reason = reason
        self.offset = offset


class TruncatedError(BinaryError):
    """A structure reaches beyond the end of the file: the file is cut off, or the structure lies."""


class Reader(ABC):
    """Bytes that can be read at any offset."""

    def __init__(self, size: int, *, is_sequential: bool = False) -> None:
        self.size = size
        self.is_sequential = is_sequential  # going back is expensive

    @abstractmethod
    def peek(self, offset: int, size: int) -> bytes:
        """Return the bytes of a range, fewer where it reaches beyond the end, none where it lies outside."""

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly *size* bytes.

        Raises:
            TruncatedError: the range is not wholly inside the file.

        """
        found = self.peek(offset, size)
        if len(found) != size:
            raise TruncatedError(f"cut off after {self.size} bytes: {size} more expected", offset)
        return found

    def unpack(self, layout: struct.Struct, offset: int) -> tuple[Any, ...]:
        """Read one fixed structure.

        Raises:
            TruncatedError: the structure is not wholly inside the file.

        """
        return layout.unpack(self.read(offset, layout.size))

    def chunks(self, start: int, end: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        """Go through a range once, in pieces that repeat the first *overlap* bytes of their successor."""
        end = min(end, self.size)
        for offset in range(max(start, 0), end, _CHUNK):
            yield offset, self.peek(offset, min(_CHUNK + overlap, end - offset))

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Return the offset of the first *needle* that lies inside the range, -1 when there is none."""
        for offset, chunk in self.chunks(start, end, len(needle) - 1):
            if (place := chunk.find(needle)) >= 0:
                return offset + place
        return -1

    def text(self, offset: int, limit: int) -> str:
        """Read a string that a NUL ends before the offset *limit*.

        Raises:
            BinaryError: the string has no end.

        """
        # Names are short: one small read nearly always holds the end.
        piece = self.peek(offset, min(256, limit - offset))
        if (length := piece.find(b"\0")) < 0:
            end = self.find(b"\0", offset, min(limit, offset + _LONGEST_TEXT))
            if end < 0:
                raise BinaryError("a string without an end", offset)
            piece, length = self.read(offset, end - offset), end - offset
        return piece[:length].decode("utf-8", "backslashreplace")


class BytesReader(Reader):
    """Bytes in memory."""

    def __init__(self, content: bytes) -> None:
        super().__init__(len(content))
        self._content = content

    def peek(self, offset: int, size: int) -> bytes:
        """Return the bytes of a range."""
        return self._content[offset : offset + size] if offset >= 0 and size > 0 else b""


class WindowReader(Reader):
    """A range of another reader, e.g. one member of an archive."""

    def __init__(self, outer: Reader, start: int, size: int) -> None:
        super().__init__(size, is_sequential=outer.is_sequential)
        self._outer = outer
        self._start = start

    def peek(self, offset: int, size: int) -> bytes:
        """Return the bytes of a range."""
        return self._outer.peek(self._start + offset, min(size, self.size - offset)) if offset >= 0 else b""


class FileReader(Reader):
    """An open file.

    `pread` with random-access advice: a memory map, or the kernel's read-ahead, pulls a whole library of a
    gigabyte into memory for the few kilobytes of its headers.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        super().__init__(size)
        self._descriptor = descriptor

    def peek(self, offset: int, size: int) -> bytes:
        """Return the bytes of a range."""
        return os.pread(self._descriptor, size, offset) if 0 <= offset < self.size and size > 0 else b""


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[FileReader]:
    """Open a regular file for reading here and there.

    Raises:
        OSError: the file cannot be opened.
        BinaryError: it is a folder, a pipe, a device: nothing with bytes at offsets.

    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BinaryError("not a regular file", 0)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        yield FileReader(descriptor, status.st_size)
    finally:
        os.close(descriptor)
