"""What real containers can run on, and which of their cubins are there in name only."""

import struct

import pytest

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.fatbin import CONTAINER_KEY, FLAG_LZ4, Container, parse_container, walk_containers
from envdoctor.binary.kernels import find_kernels, kernel_code
from envdoctor.binary.reader import BytesReader, Reader
from envdoctor.model.arch import CodeKind
from envdoctor.model.device_code import KernelCode
from tests.binary.files import content_of


def a_container(sizes: dict[str, int]) -> bytes:
    """A container of compressed cubins with these uncompressed sizes, the payloads left out."""
    entries = b""
    for arch, size in sizes.items():
        suffix_flag = {"a": 0x100000, "f": 0x200000}.get(arch[-1], 0)
        number = int(arch.rstrip("af"))
        flags = FLAG_LZ4 | suffix_flag
        entries += struct.pack("<HHIQIIHHIIIQQQ", 2, 0x0101, 64, 8, 8, 0, 7, 1, number, 0, 0, flags, 0, size) + bytes(8)
    return CONTAINER_KEY + struct.pack("<Q", len(entries)) + entries


def described(reader: Reader, container: Container) -> list[KernelCode]:
    return [kernel_code(kernel) for kernel in find_kernels(reader, container)]


def stubs(content: bytes) -> list[str]:
    reader = BytesReader(content)
    return [str(code.arch) for code in described(reader, parse_container(reader, 0, len(content))) if code.is_stub]


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
    assert [code.is_stub for code in described(BytesReader(content), device_link)] == [True]
    assert [code.is_stub for code in described(BytesReader(content), kernels)] == [False, False]


@pytest.mark.parametrize(("name", "version"), [("old/cu118_all.fatbin", "6.0"), ("m_80.fatbin", "9.0")])
def test_ptx_tells_the_version_of_its_language(name: str, version: str) -> None:
    content = content_of(name)
    code = described(BytesReader(content), parse_container(BytesReader(content), 0, len(content)))

    assert {str(kernel.ptx_isa_version) for kernel in code if kernel.arch.kind is CodeKind.PTX} == {version}
    assert {kernel.ptx_isa_version for kernel in code if kernel.arch.kind is CodeKind.SASS} == {None}
