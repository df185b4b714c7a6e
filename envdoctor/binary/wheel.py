"""Members of wheels and other zip files, read where they lie: nothing is extracted."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from envdoctor.binary.reader import BinaryError, FileReader, Reader, WindowReader

MAGIC = b"PK\x03\x04"

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of the name and of the extra field
_FLAG_ENCRYPTED = 0x1

_PACKED_CHUNK = 1 << 18
_CHUNK = 1 << 20
# How far back a reader can look for free: a search reads a megabyte and then what it found in there.
_KEPT = 2 << 20
_CHECKPOINT_DISTANCE = 16 << 20
_MOST_CHECKPOINTS = 64  # 40 to 50 KB each


class WheelError(BinaryError):
    """The bytes are not a zip file whose members can be read."""


class Member(NamedTuple):
    """One file of the wheel."""

    name: str
    content: Reader | WheelError

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """Hand out the content.

        Raises:
            WheelError: it cannot be read.

        """
        if isinstance(self.content, WheelError):
            raise self.content
        yield self.content


class _Checkpoint(NamedTuple):
    """A place of a deflated member where inflating can begin again."""

    offset: int
    packed_offset: int
    pending: bytes
    inflater: "zlib._Decompress"


class InflatedReader(Reader):
    """A deflated member: read forwards it is inflated once, in fixed memory; backwards, again from a checkpoint."""

    def __init__(self, packed: Reader, size: int) -> None:
        super().__init__(size, is_sequential=True)
        self._packed = packed
        self._distance = max(_CHECKPOINT_DISTANCE, size // _MOST_CHECKPOINTS)
        self._checkpoints = [_Checkpoint(0, 0, b"", zlib.decompressobj(-zlib.MAX_WBITS))]
        self._go_back(0)

    def _go_back(self, offset: int) -> None:
        checkpoint = next(point for point in reversed(self._checkpoints) if point.offset <= offset)
        self._start = checkpoint.offset  # of what is kept
        self._kept = b""
        self._packed_offset = checkpoint.packed_offset
        self._pending = checkpoint.pending
        self._inflater = checkpoint.inflater.copy()

    def peek(self, offset: int, size: int) -> bytes:
        """Return the bytes of a range, which are inflated if they are not at hand."""
        if not 0 <= offset < self.size or size <= 0:
            return b""
        size = min(size, self.size - offset)
        if offset < self._start:
            self._go_back(offset)
        while (end := self._start + len(self._kept)) < offset + size:
            if not (piece := self._inflate()):
                break
            dropped = max(0, min(end, offset) - _KEPT - self._start)
            self._start += dropped
            self._kept = self._kept[dropped:] + piece
            self._set_checkpoint(end + len(piece))
        return self._kept[offset - self._start :][:size]

    def _set_checkpoint(self, offset: int) -> None:
        if offset - self._checkpoints[-1].offset >= self._distance:
            state = _Checkpoint(offset, self._packed_offset, self._pending, self._inflater.copy())
            self._checkpoints.append(state)

    def _inflate(self) -> bytes:
        """Return the bytes that follow, b"" at the end."""
        while not self._inflater.eof:
            if not self._pending:
                self._pending = self._packed.peek(self._packed_offset, _PACKED_CHUNK)
                self._packed_offset += len(self._pending)
            at_end = not self._pending
            try:
                piece = self._inflater.decompress(self._pending, _CHUNK)
            except zlib.error as exc:
                raise WheelError(f"the member is damaged: {exc}", self._start + len(self._kept)) from exc
            self._pending = self._inflater.unconsumed_tail
            if piece or at_end:
                return piece
        return b""


def find_members(file: BinaryIO) -> Iterator[Member]:
    """Go through the files of a wheel, in the order of its directory.

    Raises:
        WheelError: the directory is missing or damaged.

    """
    try:
        directory = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, OSError, struct.error) as exc:
        raise WheelError(f"not a wheel that can be read: {exc}", 0) from exc
    file.seek(0, 2)
    reader = FileReader(file.fileno(), file.tell())
    for info in directory:
        if info.filename.endswith("/"):
            continue
        try:
            yield Member(info.filename, _content(reader, info))
        except WheelError as error:
            yield Member(info.filename, error)


def _content(reader: Reader, info: zipfile.ZipInfo) -> Reader:
    try:
        signature, name_length, extra_length = reader.unpack(_LOCAL_HEADER, info.header_offset)
    except BinaryError as exc:
        raise WheelError("the header of the member is cut off", info.header_offset) from exc
    if signature != MAGIC:
        raise WheelError("the header of the member is damaged", info.header_offset)
    if info.flag_bits & _FLAG_ENCRYPTED:
        raise WheelError("the member is encrypted", info.header_offset)
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    packed = WindowReader(reader, start, info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return InflatedReader(packed, info.file_size)
    raise WheelError(f"the member is compressed by method {info.compress_type}", info.header_offset)
