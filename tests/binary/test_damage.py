"""The law of the readers: any bytes give a value or a `BinaryError`."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envdoctor.binary.image import read_image
from envdoctor.binary.reader import BinaryError, BytesReader
from tests.binary.files import SMALL_FILES, content_of
from tools.fuzz_binaries import fuzz, originals, read_everything

PATCHES = st.lists(st.tuples(st.integers(0, 40_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6)


def patched(content: bytes, patches: list[tuple[int, bytes]]) -> bytes:
    damaged = bytearray(content)
    for offset, patch in patches:
        place = offset % len(damaged)
        damaged[place : place + len(patch)] = patch
    return bytes(damaged)


def try_to_read(content: bytes) -> None:
    """Whatever is not a `BinaryError` fails the test."""
    with contextlib.suppress(BinaryError):
        read_image(BytesReader(content), deep=True)


@given(st.sampled_from(SMALL_FILES), PATCHES)
@settings(max_examples=300, deadline=None)
def test_a_patched_file_gives_a_value_or_an_error(name: str, patches: list[tuple[int, bytes]]) -> None:
    try_to_read(patched(content_of(name), patches))


@given(st.sampled_from(SMALL_FILES), st.integers(0, 40_000))
@settings(max_examples=200, deadline=None)
def test_a_file_cut_anywhere_gives_a_value_or_an_error(name: str, size: int) -> None:
    try_to_read(content_of(name)[:size])


@given(
    st.sampled_from([b"", b"\x7fELF", b"MZ", b"!<arch>\n", bytes.fromhex("50ed55ba01001000")]), st.binary(max_size=600)
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_behind_a_magic_give_a_value_or_an_error(magic: bytes, content: bytes) -> None:
    try_to_read(magic + content)


def test_files_damaged_at_random_crash_nothing() -> None:
    crashes = [outcome.crash for outcome in fuzz(seed=1, first=0, count=600) if outcome.crash]

    assert crashes == []


@pytest.mark.parametrize("number", range(len(SMALL_FILES) + 3))
def test_what_the_fuzzer_damages_can_be_read_before(number: int, tmp_path: Path) -> None:
    read_everything(originals(tmp_path)[number], tmp_path / "scratch.whl")
