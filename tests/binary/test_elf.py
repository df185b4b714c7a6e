"""The ELF reader against files of a real linker, and against damage."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from envdoctor.binary.elf import SEGMENT_DYNAMIC, Elf, ElfError, parse_elf
from envdoctor.binary.reader import BinaryError, BytesReader, TruncatedError, open_file
from tests.binary.files import content_of

LIBRARY = content_of("rdc/librdc.so")


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


def test_every_symbol_is_found_by_its_name() -> None:
    elf = parse(LIBRARY)
    table, names = elf.section(".dynsym"), elf.section(".dynstr")
    assert table is not None
    assert names is not None
    rows = list(struct.iter_unpack("<IBBHQQ", LIBRARY[table.offset : table.offset + table.size]))[1:]

    for row in rows:
        start = names.offset + row[0]
        name = LIBRARY[start : LIBRARY.index(b"\0", start)].decode()
        assert elf.find_symbol(name, ".dynsym") == row


@pytest.mark.parametrize(
    ("name", "table"),
    [("no_such_function", ".dynsym"), ("go", ".no_such_table"), ("libcudart.so.13", ".dynsym")],
    ids=["no such name", "no such table", "a string of the table that names no symbol"],
)
def test_a_symbol_that_is_not_there_is_not_found(name: str, table: str) -> None:
    assert parse(LIBRARY).find_symbol(name, table) is None


def test_a_symbol_table_without_names_is_an_error() -> None:
    sections = parse(LIBRARY).sections
    index = next(index for index, section in enumerate(sections) if section.name == ".dynsym")
    damaged = patched(parse(LIBRARY).header.sections_offset + 64 * index + 0x28, "<I", 500)

    with pytest.raises(ElfError, match="has no string table"):
        parse(damaged).find_symbol("go", ".dynsym")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-Wl,-soname,libx.so.1"], ("libx.so.1", "", "")),
        (["-Wl,-rpath,$ORIGIN/a:/b", "-Wl,--disable-new-dtags"], ("", "$ORIGIN/a:/b", "")),
        (["-Wl,-rpath,$ORIGIN/a", "-Wl,--enable-new-dtags"], ("", "", "$ORIGIN/a")),
        ([f"-Wl,-soname,{'long' * 200}.so"], ("long" * 200 + ".so", "", "")),
    ],
    ids=["soname", "rpath", "runpath", "long soname"],
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
        (b"", "cut off after 0 bytes: 6 more expected", 0),
        (b"#!/bin/sh\n", "not an ELF file", 0),
        (b"\x7fELF\x01\x01" + bytes(58), "a 32-bit ELF file", 4),
        (b"\x7fELF\x02\x02" + bytes(58), "a big-endian ELF file", 5),
        (LIBRARY[:40], "cut off after 40 bytes: 64 more expected", 0),
    ],
    ids=["empty", "script", "32-bit", "big-endian", "cut in its header"],
)
def test_what_is_no_such_file_is_refused_with_the_reason(content: bytes, reason: str, offset: int) -> None:
    with pytest.raises(BinaryError) as caught:
        parse(content)

    assert (caught.value.reason, caught.value.offset) == (reason, offset)


def test_a_truncated_library_says_that_its_section_table_is_missing() -> None:
    with pytest.raises(TruncatedError, match="cut off after 20000 bytes"):
        _ = parse(LIBRARY[:20_000]).sections


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [(0x3A, "<H", 63), (0x3E, "<H", 0x7FFF), (0x28, "<Q", 1 << 63)],
    ids=["size of section headers", "index of names", "place of the table"],
)
def test_a_lying_header_is_one_error(offset: int, layout: str, value: int) -> None:
    with pytest.raises(BinaryError):
        _ = parse(patched(offset, layout, value)).sections


def test_more_sections_than_any_linker_writes_are_an_error() -> None:
    table = parse(LIBRARY).header.sections_offset
    uncounted = bytearray(patched(0x3C, "<H", 0))
    struct.pack_into("<Q", uncounted, table + 0x20, 1 << 40)

    with pytest.raises(ElfError, match="1099511627776 sections"):
        _ = parse(bytes(uncounted)).sections


def dynamic_size(size: int) -> bytes:
    """The library with another size of its dynamic segment."""
    elf = parse(LIBRARY)
    [index] = [index for index, segment in enumerate(elf.segments) if segment.segment_type == SEGMENT_DYNAMIC]
    return patched(elf.header.segments_offset + 56 * index + 0x20, "<Q", size)


def test_a_dynamic_table_may_end_with_its_segment() -> None:
    whole = parse(LIBRARY)

    assert parse(dynamic_size(16 * len(whole.dynamic))).dynamic == whole.dynamic


def test_a_dynamic_table_without_strings_is_an_error() -> None:
    with pytest.raises(ElfError, match="a dynamic table without strings"):
        _ = parse(dynamic_size(16)).needed


def test_a_dynamic_table_of_gigabytes_is_an_error() -> None:
    with pytest.raises(ElfError, match="a dynamic table of 1073741824 bytes"):
        _ = parse(dynamic_size(1 << 30)).needed


def test_an_object_file_needs_nothing() -> None:
    elf = parse(content_of("rdc/a.o"))

    assert (elf.segments, elf.needed, elf.soname) == ((), (), "")


def test_an_address_outside_every_segment_is_an_error() -> None:
    with pytest.raises(ElfError, match="in no segment"):
        parse(LIBRARY).offset_of(1 << 60)
