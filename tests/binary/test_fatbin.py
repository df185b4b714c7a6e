"""Fatbin containers of real toolkits, compared with what cuobjdump says about them."""

import json
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
    Container,
    Entry,
    FatbinError,
    kernel_code,
    parse_container,
    walk_containers,
)
from envdoctor.binary.reader import BytesReader, Reader
from envdoctor.model.arch import CodeKind
from tests.binary.files import FIXTURES, content_of

EXPECTED = json.loads(content_of("expected.json"))
KINDS = {CodeKind.PTX: "ptx", CodeKind.SASS: "elf", CodeKind.LTO_IR: "nvvm"}
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
        "kind": KINDS[entry.arch.kind],
        "target": f"{entry.arch.capability.number}{entry.arch.suffix}",
        "version": list(entry.version),
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


# --- stubs -------------------------------------------------------------------------------------------------------


def a_container(sizes: dict[str, int]) -> bytes:
    """A container of compressed cubins with these uncompressed sizes, the payloads left out."""
    entries = b""
    for arch, size in sizes.items():
        suffix_flag = {"a": 0x100000, "f": 0x200000}.get(arch[-1], 0)
        number = int(arch.rstrip("af"))
        flags = FLAG_LZ4 | suffix_flag
        entries += struct.pack("<HHIQIIHHIIIQQQ", 2, 0x0101, 64, 8, 8, 0, 7, 1, number, 0, 0, flags, 0, size) + bytes(8)
    return FATBIN[:8] + struct.pack("<Q", len(entries)) + entries


def stubs(content: bytes) -> list[str]:
    reader = BytesReader(content)
    code = kernel_code(reader, parse_container(reader, 0, len(content)))
    return [str(kernel.arch) for kernel in code if kernel.is_stub]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # flash_fwd_hdim128_bf16_sm80.cu in torch 2.8.0 and in 2.14.1, the second also at its least obvious
        ({"70": 56_000, "75": 54_464, "80": 1_152_480, "86": 1_152_480, "90": 1_190_064}, ["sm_70", "sm_75"]),
        ({"75": 443_520, "80": 1_025_248, "86": 1_025_120, "90": 1_071_568, "100": 1_590_656}, ["sm_75"]),
        # bitsandbytes 0.50.2, cuda130: the smallest cubin is for the newest architecture but two
        ({"75": 1_097_536, "80": 790_784, "86": 791_296, "90": 364_768, "100": 667_752, "120": 666_512}, []),
        # torch 1.13.1: instructions of Kepler take less room
        ({"37": 53_504, "50": 75_776, "60": 75_712, "70": 113_984, "75": 110_144, "80": 118_336, "86": 121_024}, []),
        # torch 2.14.1: cubins for sm_100 and sm_120 that are not stored twice
        ({"75": 7_838_176, "80": 7_004_320, "86": 6_991_008, "90": 7_045_200, "100": 5_146_608, "120": 5_649_144}, []),
        # k.cu, nvcc 13.0: small kernels, and sm_120 stored twice
        ({"75": 11_184, "100": 18_688, "120": 24_896}, []),
        # two architectures tell nothing about what is usual
        ({"75": 11_184, "120": 240_896}, []),
        # variants hold other kernels than the cubins beside them
        ({"80": 50_000, "90": 50_000, "100": 70_000, "90a": 4_000, "100f": 3_000}, []),
    ],
    ids=["flash", "flash-45%", "bitsandbytes", "kepler", "stored once", "small", "two", "variants"],
)
def test_cubins_far_smaller_than_those_for_newer_hardware_are_stubs(sizes: dict[str, int], expected: list[str]) -> None:
    assert stubs(a_container(sizes)) == expected


def test_the_container_that_device_linking_leaves_has_no_kernels() -> None:
    content = content_of("rdc/libnordc.so")
    [section] = [section for section in parse_elf(BytesReader(content)).sections if section.name == ".nv_fatbin"]
    [device_link, kernels] = walk_containers(BytesReader(content), section.offset, section.offset + section.size)

    assert isinstance(device_link, Container)
    assert isinstance(kernels, Container)
    assert [code.is_stub for code in kernel_code(BytesReader(content), device_link)] == [True]
    assert [code.is_stub for code in kernel_code(BytesReader(content), kernels)] == [False, False]


@pytest.mark.parametrize(("name", "version"), [("old/cu118_all.fatbin", "6.0"), ("m_80.fatbin", "9.0")])
def test_ptx_tells_the_version_of_its_language(name: str, version: str) -> None:
    content = content_of(name)
    code = kernel_code(BytesReader(content), parse_container(BytesReader(content), 0, len(content)))

    assert {str(kernel.ptx_isa_version) for kernel in code if kernel.arch.kind is CodeKind.PTX} == {version}
    assert {kernel.ptx_isa_version for kernel in code if kernel.arch.kind is CodeKind.SASS} == {None}


# --- today's toolkit ---------------------------------------------------------------------------------------------


def test_what_the_installed_nvcc_writes_is_read(tmp_path: Path) -> None:
    if (nvcc := shutil.which("nvcc")) is None:
        pytest.skip("nvcc is not installed")
    targets = ["arch=compute_90a,code=sm_90a", "arch=compute_80,code=sm_80", "arch=compute_80,code=compute_80"]
    command = [nvcc, "-fatbin", *(f"-gencode={target}" for target in targets), "-o", "k.fatbin", str(FIXTURES / "k.cu")]
    subprocess.run(command, cwd=tmp_path, check=True)

    [container] = walked((tmp_path / "k.fatbin").read_bytes())

    assert isinstance(container, Container)
    assert {str(entry.arch) for entry in container.entries} == {"sm_80", "sm_90a", "compute_80"}
