"""The readers: every one hands out the same bytes, and none outside of its range."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envdoctor.binary.reader import BinaryError, BytesReader, Reader, TruncatedError, WindowReader, open_file
from envdoctor.binary.wheel import InflatedReader
from tests.binary.files import deflated

CONTENT = bytes(range(256)) * 20


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Reader]:
    (folder / "file").write_bytes(CONTENT)
    with open_file(folder / "file") as file:
        readers = {
            "bytes": BytesReader(CONTENT),
            "file": file,
            "window": WindowReader(BytesReader(b"before" + CONTENT + b"behind"), 6, len(CONTENT)),
            "inflated": InflatedReader(BytesReader(deflated(CONTENT)), len(CONTENT)),
        }
        yield readers[kind]


@pytest.mark.parametrize("kind", ["bytes", "file", "window", "inflated"])
@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (0, 10, CONTENT[:10]),
        (300, 300, CONTENT[300:600]),
        (len(CONTENT) - 3, 10, CONTENT[-3:]),
        (len(CONTENT), 1, b""),
        (1 << 62, 1 << 62, b""),
        (-1, 10, b""),
        (5, 0, b""),
        (5, -1, b""),
    ],
)
def test_a_range_is_cut_to_what_there_is(kind: str, offset: int, size: int, expected: bytes, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as reader:
        assert reader.peek(offset, size) == expected


@pytest.mark.parametrize(("offset", "size"), [(len(CONTENT) - 3, 4), (1 << 63, 1), (-4, 4)])
def test_what_must_be_there_and_is_not_is_an_error(offset: int, size: int) -> None:
    with pytest.raises(TruncatedError) as caught:
        BytesReader(CONTENT).read(offset, size)

    assert caught.value.offset == offset


@pytest.mark.parametrize("place", [0, 1000, (1 << 20) - 3, 1 << 20, (2 << 20) + 5])
def test_a_search_finds_what_lies_across_its_steps(place: int) -> None:
    content = bytes(place) + b"needle" + bytes(1000)

    assert BytesReader(content).find(b"needle", 0, len(content)) == place


@pytest.mark.parametrize(("start", "end"), [(101, 200), (0, 105), (500, 600), (50, 50)])
def test_a_search_stays_inside_its_range(start: int, end: int) -> None:
    content = bytes(100) + b"needle" + bytes(100)

    assert BytesReader(content).find(b"needle", start, end) == -1


@pytest.mark.parametrize("length", [0, 1, 255, 256, 5000])
def test_a_text_ends_at_its_nul(length: int) -> None:
    content = b"x" * length + b"\0behind"

    assert BytesReader(content).text(0, len(content)) == "x" * length


def test_a_text_without_an_end_is_an_error() -> None:
    with pytest.raises(BinaryError, match="a string without an end at offset 0x2"):
        BytesReader(b"x" * 3000 + b"\0").text(2, 2000)
