"""The device code of whole files, in every format and from every kind of reader."""

from pathlib import Path

import pytest

from envdoctor.binary.image import Image, read_image
from envdoctor.binary.reader import BinaryError, BytesReader, open_file
from envdoctor.binary.wheel import InflatedReader
from envdoctor.model.arch import format_arch_list
from envdoctor.model.device_code import ContainerGroup
from tests.binary.files import FIXTURES, content_of, deflated, static_library, windows_library

FATBIN = content_of("m_80.fatbin")
OTHER_FATBIN = content_of("m_90a.fatbin")
CUBIN = content_of("old/cu121_sm_90a.cubin")
LIBRARY = content_of("rdc/librdc.so")


def read(content: bytes, *, deep: bool = False) -> Image:
    return read_image(BytesReader(content), deep=deep)


def summary(image: Image) -> list[tuple[str, int, str]]:
    return [(group.section, group.count, archs(group)) for group in image.containers]


def archs(group: ContainerGroup) -> str:
    return format_arch_list(tuple(code.arch for code in group.code))


def test_containers_with_the_same_code_are_counted_together() -> None:
    assert summary(read(FATBIN + OTHER_FATBIN + FATBIN)) == [("", 2, "compute_80 sm_80"), ("", 1, "compute_90a sm_90a")]


def test_input_of_device_linking_is_told_from_what_the_driver_loads() -> None:
    image = read(LIBRARY)

    assert summary(image) == [
        (".nv_fatbin", 1, "sm_80 sm_90a"),
        ("__nv_relfatbin", 2, "sm_80 sm_90a compute_90"),
    ]
    assert [group.relocatable for group in image.containers] == [False, True]


def test_a_library_tells_what_it_needs() -> None:
    assert read(LIBRARY).needed[0] == "libcudart.so.13"


def test_a_cubin_stands_alone() -> None:
    [group] = read(CUBIN).containers

    assert (archs(group), group.count, group.bare) == ("sm_90a", 1, True)


def test_a_static_library_is_the_sum_of_its_members() -> None:
    archive = static_library(("a.o", content_of("rdc/a.o")), ("b.o", content_of("rdc/b.o")), ("notes", b"text"))

    assert summary(read(archive)) == [("__nv_relfatbin", 2, "sm_80 sm_90a compute_90")]


def test_a_damaged_member_leaves_the_others_standing() -> None:
    archive = static_library(("a.o", content_of("rdc/a.o")[:2000]), ("b.o", content_of("rdc/b.o")))

    image = read(archive)

    assert summary(image) == [("__nv_relfatbin", 1, "sm_80 sm_90a compute_90")]
    [damage] = image.damage
    assert damage.reason.startswith("member `a.o`: ")


def test_a_windows_library_is_read_like_any_other() -> None:
    image = read(windows_library({".nv_fatb": FATBIN + bytes(8) + FATBIN, "__nv_rel": OTHER_FATBIN}, ("cudart.dll",)))

    assert summary(image) == [(".nv_fatb", 2, "compute_80 sm_80"), ("__nv_rel", 1, "compute_90a sm_90a")]
    assert image.needed == ("cudart.dll",)
    assert image.damage == ()


def test_a_library_without_section_table_is_searched() -> None:
    without_table = LIBRARY[:0x28] + bytes(8) + LIBRARY[0x30:]

    found = {(group.count, archs(group)) for group in read(without_table).containers}

    assert found == {(1, "sm_80 sm_90a"), (2, "sm_80 sm_90a compute_90")}


def test_code_in_data_sections_is_found_when_asked_for() -> None:
    library = windows_library({".rdata": b"text" * 5 + FATBIN + b"\x00\x01" + CUBIN + bytes(100)})

    assert summary(read(library)) == []
    assert summary(read(library, deep=True)) == [(".rdata", 1, "compute_80 sm_80"), (".rdata", 1, "sm_90a")]


def test_a_search_does_not_look_into_what_it_found() -> None:
    # m_80.fatbin is not compressed: a whole cubin stands inside.
    assert summary(read(windows_library({".rdata": FATBIN}), deep=True)) == [(".rdata", 1, "compute_80 sm_80")]


@pytest.mark.parametrize("offset", [(1 << 20) - 20, (1 << 20) - 2, 1 << 20])
def test_a_search_sees_what_lies_across_two_of_its_steps(offset: int) -> None:
    library = windows_library({".rdata": bytes(offset - 0x600) + FATBIN + bytes(100) + CUBIN})

    assert summary(read(library, deep=True)) == [(".rdata", 1, "compute_80 sm_80"), (".rdata", 1, "sm_90a")]


def test_kernels_of_a_profiler_are_nobodys_device_code() -> None:
    profiler = CUBIN.replace(b"add1", b"__cuda_syscall_On")[: len(CUBIN)]

    assert summary(read(windows_library({".rdata": profiler + FATBIN}), deep=True)) == []


def test_keys_that_stand_in_data_by_chance_are_no_damage() -> None:
    library = windows_library({".rdata": FATBIN[:24] + b"\x7fELF\x02\x01\x01" + bytes(200)})

    assert read(library, deep=True) == read(library)


@pytest.mark.parametrize("name", ["rdc/librdc.so", "rdc/a.o", "t1.so", "m_80.fatbin", "k_120a.cubin"])
@pytest.mark.parametrize("deep", [False, True])
def test_a_deflated_file_is_read_like_a_plain_one(name: str, deep: bool) -> None:
    content = content_of(name)
    packed = BytesReader(deflated(content))

    assert read_image(InflatedReader(packed, len(content)), deep=deep) == read(content, deep=deep)


def test_a_damaged_section_is_damage_in_a_deflated_file_too() -> None:
    content = bytearray(LIBRARY)
    start = content.find(FATBIN[:8])
    content[start] = 0
    packed = BytesReader(deflated(bytes(content)))

    [damage] = read_image(InflatedReader(packed, len(content))).damage

    assert damage.offset == start


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer: the library itself was not downloaded"),
        (b"<!DOCTYPE html>", "not a compiled file"),
        (bytes(4096), "a file that begins with zeros"),
    ],
)
def test_what_is_no_compiled_file_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(BinaryError) as caught:
        read(content)

    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "content", [bytes.fromhex("cffaedfe") + bytes(60), b"/* GNU ld script\n*/\nGROUP ( /lib/x.so )"]
)
def test_libraries_of_other_systems_and_linker_scripts_hold_nothing(content: bytes) -> None:
    assert read(content) == Image()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BinaryError, match="not a regular file"), open_file(tmp_path):
        pass


def test_an_open_file_is_read_like_its_bytes() -> None:
    with open_file(FIXTURES / "t1.so") as reader:
        assert read_image(reader, deep=True) == read(content_of("t1.so"), deep=True)
