"""The file system of this machine as the emulated loader sees it: opened when first read, and few at a time."""

import errno
import os
import stat
from collections.abc import Hashable

from envdoctor.binary.loadable import LibraryFile
from envdoctor.binary.reader import BinaryError, Reader
from envdoctor.errors import ProbeError

# A process may have a thousand files open; an environment has more libraries.
_MOST_OPEN = 200

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})

# Headers and names are small and lie close together.
_BLOCK = 4096
_OVERLAP = 512
_MOST_BLOCKS = 8


class LoaderFiles:
    """Opens files by path; two paths to one file share its identity."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}  # descriptors by path, the one opened first in front

    def open(self, path: str) -> LibraryFile:
        """Open a file.

        Raises:
            OSError: the system refuses it.
            ProbeError: this process, or the machine, has too many files open.
            BinaryError: it is a pipe or a device: the loader might wait for its bytes for ever.

        """
        descriptor = self._descriptor(path)
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):  # which can be opened, and not be read
            return LibraryFile(identity, _SharedReader(self, path, identity, 0), errno.EISDIR)
        if not stat.S_ISREG(status.st_mode):
            raise BinaryError(f"`{path}` is not a regular file", 0)
        allows_code = not os.fstatvfs(descriptor).f_flag & os.ST_NOEXEC
        return LibraryFile(identity, _SharedReader(self, path, identity, status.st_size), allows_code=allows_code)

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder is there."""
        return os.path.isdir(path)

    def read(self, path: str, identity: Hashable, offset: int, size: int) -> bytes:
        """Read from a file that was opened before.

        Raises:
            BinaryError: it cannot be read any longer, or it is another one by now.

        """
        try:
            descriptor = self._open.get(path) or self._reopen(path, identity)
            return os.pread(descriptor, size, offset)
        except OSError as exc:
            raise BinaryError(f"`{path}` cannot be read: {exc.strerror}", offset) from exc

    def close(self) -> None:
        """Close all files; what is read later opens its file again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def _descriptor(self, path: str) -> int:
        if path not in self._open:
            descriptor = self._open_anew(path)
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            self._open[path] = descriptor
        return self._open[path]

    def _open_anew(self, path: str) -> int:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            return os.open(path, flags)
        except OSError as exc:
            # Our own want of descriptors is not what the loader would meet.
            if exc.errno not in _OUT_OF_DESCRIPTORS:
                raise
        self.close()
        try:
            return os.open(path, flags)
        except OSError as exc:
            if exc.errno not in _OUT_OF_DESCRIPTORS:
                raise
            raise ProbeError(f"`{path}` cannot be opened here: {exc.strerror}") from exc

    def _reopen(self, path: str, identity: Hashable) -> int:
        descriptor = self._descriptor(path)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != identity:
            raise BinaryError(f"`{path}` was replaced while it was read", 0)
        return descriptor


class _SharedReader(Reader):
    """The bytes of one file, through whatever descriptor it has at the moment."""

    def __init__(self, files: LoaderFiles, path: str, identity: Hashable, size: int) -> None:
        super().__init__(size)
        self._files = files
        self._path = path
        self._identity = identity
        self._blocks: dict[int, bytes] = {}

    def peek(self, offset: int, size: int) -> bytes:
        """Return the bytes of a range."""
        size = min(size, self.size - offset)  # the system makes room for all that is asked for
        if offset < 0 or size <= 0:
            return b""
        if size > _OVERLAP:
            return self._files.read(self._path, self._identity, offset, size)
        number, place = divmod(offset, _BLOCK)
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            block = self._files.read(self._path, self._identity, number * _BLOCK, _BLOCK + _OVERLAP)
            self._blocks[number] = block
        return block[place : place + size]
