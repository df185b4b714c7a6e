"""Reading the device code of one library, whole or damaged."""

import os
import shutil
from pathlib import Path

import pytest

from envdoctor.model.arch import format_arch_list
from envdoctor.model.facts import LibraryRole
from envdoctor.probes.device_code import read_device_code
from tests.binary.files import FIXTURES

LIBRARY = FIXTURES / "rdc" / "librdc.so"


def test_a_library_tells_its_containers_size_and_needs() -> None:
    code = read_device_code(LIBRARY, role=LibraryRole.JIT)

    assert [format_arch_list(tuple(kernel.arch for kernel in group.code)) for group in code.containers] == [
        "sm_80 sm_90a",
        "sm_80 sm_90a compute_90",
    ]
    assert code.size == LIBRARY.stat().st_size
    assert code.needed[0] == "libcudart.so.13"
    assert (code.role, code.unreadable) == (LibraryRole.JIT, "")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a Git LFS pointer"),
        (LIBRARY.read_bytes()[:30_000], "cut off after 30000 bytes"),
        (b"\x7fELF", "cut off after 4 bytes: 6 more expected"),
    ],
    ids=["empty", "LFS pointer", "truncated", "cut in its header"],
)
def test_what_cannot_be_read_has_its_reason(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)

    code = read_device_code(path, role=LibraryRole.EXTENSION)

    assert reason in code.unreadable
    assert code.size == len(content)


def test_a_library_that_is_gone_has_its_reason(tmp_path: Path) -> None:
    assert read_device_code(tmp_path / "x.so", role=LibraryRole.EXTENSION).unreadable == "No such file or directory"


def test_a_library_that_may_not_be_read_has_its_reason(unprivileged: Path) -> None:
    path = Path(shutil.copyfile(LIBRARY, unprivileged / "x.so"))
    path.chmod(0)

    assert read_device_code(path, role=LibraryRole.EXTENSION).unreadable == "Permission denied"


def test_a_pipe_in_the_place_of_a_library_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.so")

    assert read_device_code(tmp_path / "x.so", role=LibraryRole.EXTENSION).unreadable.startswith("not a regular file")


def test_a_damaged_container_leaves_the_others_standing(tmp_path: Path) -> None:
    damaged = bytearray(LIBRARY.read_bytes())
    damaged[damaged.find(bytes.fromhex("50ed55ba01001000"))] = 0
    path = tmp_path / "x.so"
    path.write_bytes(damaged)

    code = read_device_code(path, role=LibraryRole.EXTENSION)

    assert [group.section for group in code.containers] == ["__nv_relfatbin"]
    assert "not a fatbin container" in code.unreadable
