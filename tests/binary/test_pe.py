"""Windows files, built to the specification around real device code."""

import struct

import pytest

from envdoctor.binary.pe import PeError, parse_pe
from envdoctor.binary.reader import BinaryError, BytesReader
from tests.binary.files import content_of, windows_library

FATBIN = content_of("m_80.fatbin")
LIBRARY = windows_library({".nv_fatb": FATBIN}, imports=("cudart64_110.dll", "torch_cuda.dll"))


def test_sections_have_their_names_and_their_bytes() -> None:
    [section] = [section for section in parse_pe(BytesReader(LIBRARY)).sections if section.name == ".nv_fatb"]

    assert LIBRARY[section.offset : section.offset + section.size] == FATBIN


def test_imported_libraries_keep_their_order() -> None:
    assert parse_pe(BytesReader(LIBRARY)).needed == ("cudart64_110.dll", "torch_cuda.dll")


def test_a_library_may_import_nothing() -> None:
    assert parse_pe(BytesReader(windows_library({}))).needed == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"MZ", "cut off after 2 bytes: 64 more expected"),
        (LIBRARY.replace(b"PE\0\0", b"NE\0\0"), "not a Windows file"),
        (LIBRARY.replace(struct.pack("<H", 0x20B), struct.pack("<H", 0x107), 1), "not a Windows program or library"),
    ],
    ids=["cut off", "16-bit", "ROM image"],
)
def test_what_is_no_such_file_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(BinaryError) as caught:
        parse_pe(BytesReader(content))

    assert caught.value.reason == reason


def test_a_table_of_imports_may_end_without_an_empty_entry() -> None:
    size = 0x40 + 24 + 124
    shorter = LIBRARY[:size] + struct.pack("<I", 2 * 20) + LIBRARY[size + 4 :]

    assert parse_pe(BytesReader(shorter)).needed == ("cudart64_110.dll", "torch_cuda.dll")


def test_imports_that_lie_nowhere_are_one_error() -> None:
    import_directory = 0x40 + 24 + 120
    damaged = LIBRARY[:import_directory] + struct.pack("<I", 0x7000_0000) + LIBRARY[import_directory + 4 :]

    with pytest.raises(PeError, match="is in no section"):
        _ = parse_pe(BytesReader(damaged)).needed
