"""Fatbin containers of real toolkits, compared with what cuobjdump says about them."""

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.fatbin import (
    FLAG_LZ4,
    FLAG_ZSTD,
    KIND_CUBIN,
    KIND_LTO_IR,
    KIND_PTX,
    MOST_CONTAINERS,
    Container,
    Entry,
    FatbinError,
    make_arch,
    parse_container,
    walk_containers,
)
from envdoctor.binary.reader import BytesReader, Reader
from tests.binary.files import FIXTURES, content_of

EXPECTED = json.loads(content_of("expected.json"))
KINDS = {KIND_PTX: "ptx", KIND_CUBIN: "elf", KIND_LTO_IR: "nvvm"}
FATBIN = content_of("old/cu118_all.fatbin")


def sections(reader: Reader, file_format: str) -> list[tuple[int, int]]:
    if file_format == "fatbin":
        return [(0, reader.size)]
    named = {section.name: section for section in parse_elf(reader).sections}
    found = [named[name] for name in (".nv_fatbin", "__nv_relfatbin") if name in named]
    return [(section.offset, section.offset + section.size) for section in found]


def described(entry: Entry) -> dict[str, Any]:
    compressed = {FLAG_ZSTD: "zstd", FLAG_LZ4: "lz4", 0: ""}[entry.flags & (FLAG_ZSTD | FLAG_LZ4)]
    return {
        "kind": KINDS[entry.kind],
        "target": re.sub(r"[a-z]+_", "", str(make_arch(entry.kind, entry.number, entry.flags))),
        "version": [entry.major_version, entry.minor_version],
        "flags": hex(entry.flags),
        "comp": compressed,
        "header": entry.header_size,
        "size": entry.payload_size,
        "csize": entry.compressed_size,
        "usize": entry.uncompressed_size,
    }


def walked(content: bytes) -> list[Container | FatbinError]:
    return list(walk_containers(BytesReader(content), 0, len(content)))


@pytest.mark.parametrize("name", [name for name, row in EXPECTED.items() if row["format"] != "cubin"])
def test_every_entry_is_read_as_cuobjdump_reads_it(name: str) -> None:
    reader = BytesReader(content_of(name))

    found = [
        [described(entry) for entry in container.entries]
        for start, end in sections(reader, EXPECTED[name]["format"])
        for container in walk_containers(reader, start, end)
        if isinstance(container, Container)
    ]

    assert found == EXPECTED[name]["containers"]


@pytest.mark.parametrize("name", [name for name, row in EXPECTED.items() if row["format"] != "cubin"])
def test_real_files_are_walked_without_a_gap(name: str) -> None:
    reader = BytesReader(content_of(name))

    for start, end in sections(reader, EXPECTED[name]["format"]):
        sizes = [
            container.size for container in walk_containers(reader, start, end) if isinstance(container, Container)
        ]

        assert sum(sizes) == end - start


def test_empty_containers_are_containers() -> None:
    empty = FATBIN[:8] + bytes(8)

    assert walked(empty + FATBIN) == [Container(0, 16, ()), *walked_at(16)]


def test_the_walk_ends_after_more_containers_than_any_library_has() -> None:
    *_, last = walked((FATBIN[:8] + bytes(8)) * (MOST_CONTAINERS + 10))

    assert str(last) == f"more than 100,000 containers at offset {16 * MOST_CONTAINERS:#x}"


def walked_at(offset: int) -> list[Container | FatbinError]:
    padded = bytes(offset) + FATBIN
    return list(walk_containers(BytesReader(padded), offset, len(padded)))


def test_zeros_between_containers_are_alignment_on_windows() -> None:
    found = walked(FATBIN + bytes(8) + FATBIN + bytes(500))

    assert [container.offset for container in found] == [0, len(FATBIN) + 8]
    assert all(isinstance(container, Container) for container in found)


def test_after_damage_the_walk_goes_on_at_the_next_container() -> None:
    damaged = bytearray(FATBIN)
    damaged[100 : 100 + len(FATBIN) // 2] = b"\xcc" * (len(FATBIN) // 2)

    [error, container] = walked(bytes(damaged) + FATBIN)

    assert isinstance(error, FatbinError)
    assert isinstance(container, Container)
    assert container.offset == len(FATBIN)


def test_a_container_that_is_cut_off_is_an_error_with_its_offset() -> None:
    [error] = walked(FATBIN[:-8])

    assert isinstance(error, FatbinError)
    assert error.offset == 0
    assert "reaches beyond its section" in error.reason


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (8, "the header of a fatbin container is cut off"),
        (40, "the header of a fatbin entry is cut off"),
        (len(FATBIN) // 2, "the header of a fatbin entry is cut off"),
    ],
)
def test_headers_that_the_end_of_the_file_cuts_off_are_refused(size: int, reason: str) -> None:
    with pytest.raises(FatbinError) as caught:
        parse_container(BytesReader(FATBIN[:size]), 0, len(FATBIN))

    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("offset", "layout", "value", "reason"),
    [
        (4, "<H", 2, "not a fatbin container of version 1"),
        (16, "<H", 64, "a fatbin entry of unknown kind 64"),
        (18, "<H", 0x0102, "not a fatbin entry of a known version"),
        (20, "<I", 0, "not a fatbin entry of a known version"),
        (24, "<Q", 1 << 62, "the entries of a fatbin container reach beyond it"),
        (16 + 0x1C, "<I", 1 << 31, "a fatbin entry for architecture 2147483648"),
    ],
    ids=["version", "kind", "entry version", "header size", "payload size", "architecture"],
)
def test_fields_that_cannot_be_are_refused(offset: int, layout: str, value: int, reason: str) -> None:
    damaged = bytearray(FATBIN)
    struct.pack_into(layout, damaged, offset, value)

    with pytest.raises(FatbinError) as caught:
        parse_container(BytesReader(bytes(damaged)), 0, len(damaged))

    assert caught.value.reason == reason


# --- today's toolkit ---------------------------------------------------------------------------------------------


def test_what_the_installed_nvcc_writes_is_read(tmp_path: Path) -> None:
    if (nvcc := shutil.which("nvcc")) is None:
        pytest.skip("nvcc is not installed")
    targets = ["arch=compute_90a,code=sm_90a", "arch=compute_80,code=sm_80", "arch=compute_80,code=compute_80"]
    command = [nvcc, "-fatbin", *(f"-gencode={target}" for target in targets), "-o", "k.fatbin", str(FIXTURES / "k.cu")]
    subprocess.run(command, cwd=tmp_path, check=True)

    [container] = walked((tmp_path / "k.fatbin").read_bytes())

    assert isinstance(container, Container)
    assert {str(make_arch(entry.kind, entry.number, entry.flags)) for entry in container.entries} == {
        "sm_80",
        "sm_90a",
        "compute_80",
    }
