"""The ELF reader against files of a real linker, and against damage."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from envdoctor.binary.elf import Elf, ElfError, parse_elf
from envdoctor.binary.reader import BinaryError, BytesReader, TruncatedError, open_file

FIXTURES = Path(__file__).parents[2] / "fixtures" / "binaries"
LIBRARY = (FIXTURES / "rdc" / "librdc.so").read_bytes()


def parse(content: bytes) -> Elf:
    return parse_elf(BytesReader(content))


def patched(offset: int, layout: str, value: int) -> bytes:
    content = bytearray(LIBRARY)
    struct.pack_into(layout, content, offset, value)
    return bytes(content)


def build(source: str, *options: str, folder: Path) -> Path:
    if (compiler := shutil.which("gcc")) is None:
        pytest.skip("gcc is not installed")
    library = folder / "lib.so"
    command = [compiler, "-shared", "-fPIC", "-nostdlib", "-xc", "-", "-o", str(library), *options]
    subprocess.run(command, input=source.encode(), check=True)
    return library


def test_needed_libraries_keep_their_order() -> None:
    assert parse(LIBRARY).needed == ("libcudart.so.13", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6")


def test_sections_have_their_names_places_and_sizes() -> None:
    [section] = [section for section in parse(LIBRARY).sections if section.name == ".nv_fatbin"]

    assert section.size == 9952
    assert LIBRARY[section.offset : section.offset + 4] == bytes.fromhex("50ed55ba")


def test_a_file_without_section_table_still_tells_what_the_loader_needs() -> None:
    elf = parse(patched(0x28, "<Q", 0))

    assert elf.sections == ()
    assert elf.needed[0] == "libcudart.so.13"


def test_a_symbol_is_found_by_name_and_lies_in_the_file() -> None:
    elf = parse(LIBRARY)

    symbol = elf.find_symbol("go", ".dynsym")

    assert symbol is not None
    text = elf.section(".text")
    assert text is not None
    assert 0 <= elf.offset_of(symbol.value) - text.offset < text.size


@pytest.mark.parametrize("table", [".dynsym", ".no_such_table"])
def test_a_symbol_that_is_not_there_is_not_found(table: str) -> None:
    assert parse(LIBRARY).find_symbol("no_such_function", table) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-Wl,-soname,libx.so.1"], ("libx.so.1", "", "")),
        (["-Wl,-rpath,$ORIGIN/a:/b", "-Wl,--disable-new-dtags"], ("", "$ORIGIN/a:/b", "")),
        (["-Wl,-rpath,$ORIGIN/a", "-Wl,--enable-new-dtags"], ("", "", "$ORIGIN/a")),
    ],
    ids=["soname", "rpath", "runpath"],
)
def test_names_and_search_paths_are_read(options: list[str], expected: tuple[str, str, str], tmp_path: Path) -> None:
    with open_file(build("int f(void) { return 1; }", *options, folder=tmp_path)) as reader:
        elf = parse_elf(reader)

        assert (elf.soname, elf.rpath, elf.runpath) == expected


def test_more_sections_than_the_header_can_count_are_read(tmp_path: Path) -> None:
    source = "".join(f'int v{number} __attribute__((section("s{number}"))) = 1;' for number in range(66_000))
    with open_file(build(source, "-c", folder=tmp_path)) as reader:
        elf = parse_elf(reader)

        assert elf.header.section_count == 0
        assert elf.section("s65999") is not None


@pytest.mark.parametrize(
    ("content", "reason", "offset"),
    [
        (b"", "6 bytes expected in a file of 0 bytes", 0),
        (b"#!/bin/sh\n", "not an ELF file", 0),
        (b"\x7fELF\x01\x01" + bytes(58), "a 32-bit ELF file", 4),
        (b"\x7fELF\x02\x02" + bytes(58), "a big-endian ELF file", 5),
        (LIBRARY[:40], "64 bytes expected in a file of 40 bytes", 0),
    ],
    ids=["empty", "script", "32-bit", "big-endian", "cut in its header"],
)
def test_what_is_no_such_file_is_refused_with_the_reason(content: bytes, reason: str, offset: int) -> None:
    with pytest.raises(BinaryError) as caught:
        parse(content)

    assert (caught.value.reason, caught.value.offset) == (reason, offset)


def test_a_truncated_library_says_that_its_section_table_is_missing() -> None:
    with pytest.raises(TruncatedError, match="expected in a file of 20000 bytes"):
        _ = parse(LIBRARY[:20_000]).sections


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [(0x3A, "<H", 63), (0x3E, "<H", 0x7FFF), (0x28, "<Q", 1 << 63)],
    ids=["size of section headers", "index of names", "place of the table"],
)
def test_a_lying_header_is_one_error(offset: int, layout: str, value: int) -> None:
    with pytest.raises(BinaryError):
        _ = parse(patched(offset, layout, value)).sections


def test_an_address_outside_every_segment_is_an_error() -> None:
    with pytest.raises(ElfError, match="in no segment"):
        parse(LIBRARY).offset_of(1 << 60)
