"""Which library of built-in functions an NVRTC takes, and of which releases both are."""

import sys
from pathlib import Path

import pytest

from envdoctor.model.facts import NvrtcBuiltins
from envdoctor.model.versions import CudaVersion
from envdoctor.probes.nvrtc import find_builtins
from tests.builders import an_environment, variables
from tests.compiler import build_library, needs_compiler

PLAIN = "libnvrtc-builtins.so"
# A release that no system has.
SONAME, CUDA = "libnvrtc.so.99.2", CudaVersion(99, 2)
ORIGIN = ("-Wl,--enable-new-dtags,-rpath,$ORIGIN",)  # as NVIDIA builds it

pytestmark = [needs_compiler, pytest.mark.skipif(sys.platform != "linux", reason="the loader of Linux is emulated")]


def put_compiler(folder: Path, asks_for: str = PLAIN, options: tuple[str, ...] = ORIGIN) -> Path:
    return build_library(folder / SONAME, f'extern "C" const char name[] = "\\0{asks_for}";', options=options)


def put_builtins(folder: Path, release: str, link: str = PLAIN) -> Path:
    file = build_library(folder / f"{PLAIN}.{release}")
    (folder / link).symlink_to(file)
    return folder / link


def find(*folders: Path) -> NvrtcBuiltins | None:
    path = ":".join(map(str, folders))
    environment = an_environment(interpreter=sys.executable, platform="linux-x86_64")
    return find_builtins(SONAME, environment, variables(LD_LIBRARY_PATH=path))


def test_the_folder_that_comes_first_on_the_path_wins(tmp_path: Path) -> None:
    compiler, right = put_compiler(tmp_path / "99"), put_builtins(tmp_path / "99", "99.2")
    wrong = put_builtins(tmp_path / "98", "98.6")

    assert find(tmp_path / "98", tmp_path / "99") == NvrtcBuiltins(
        nvrtc=str(compiler),
        nvrtc_cuda=CUDA,
        name=PLAIN,
        path=str(wrong),
        found_through="LD_LIBRARY_PATH",
        builtins_cuda=CudaVersion(98, 6),
        right=str(right),
    )


def test_its_own_folder_comes_before_that_of_another(tmp_path: Path) -> None:
    put_compiler(tmp_path / "99")
    right = put_builtins(tmp_path / "99", "99.2")
    put_builtins(tmp_path / "98", "98.6")
    found = find(tmp_path / "99", tmp_path / "98")

    assert found is not None
    assert (found.path, found.builtins_cuda) == (str(right), CUDA)


def test_a_newer_one_asks_for_its_release(tmp_path: Path) -> None:
    """Its own name stays that of 11.2 up to 11.8: the name that it asks for tells its release."""
    put_compiler(tmp_path / "99", asks_for=f"{PLAIN}.99.8")
    build_library(tmp_path / "99" / f"{PLAIN}.99.8")
    found = find(tmp_path / "99")

    assert found is not None
    assert (found.nvrtc_cuda, found.builtins_cuda) == (CudaVersion(99, 8), CudaVersion(99, 8))


def test_a_link_to_another_release_does_not_hide_it(tmp_path: Path) -> None:
    """https://github.com/WisconsinAIVision/yolact_edge/issues/186 has the one, and lacks the other."""
    put_compiler(tmp_path / "99", asks_for=f"{PLAIN}.99.1")
    put_builtins(tmp_path / "99", "99.6", link=f"{PLAIN}.99.1")
    found = find(tmp_path / "99")

    assert found is not None
    assert (found.nvrtc_cuda, found.builtins_cuda, found.right) == (CudaVersion(99, 1), CudaVersion(99, 6), "")


def test_the_file_behind_the_links_tells_what_the_library_does_not_say(tmp_path: Path) -> None:
    put_compiler(tmp_path)
    plain = build_library(tmp_path / PLAIN)
    (tmp_path / PLAIN).rename(tmp_path / f"{PLAIN}.98.6.55")
    plain.symlink_to(f"{PLAIN}.98.6.55")
    found = find(tmp_path)

    assert found is not None
    assert found.builtins_cuda == CudaVersion(98, 6)


def test_without_a_release_nothing_is_told(tmp_path: Path) -> None:
    put_compiler(tmp_path)
    build_library(tmp_path / PLAIN)

    assert find(tmp_path) is None


def test_without_builtins_nothing_is_told(tmp_path: Path) -> None:
    put_compiler(tmp_path, options=())

    assert find(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"no library"])
def test_a_damaged_compiler_is_not_judged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SONAME).write_bytes(content)

    assert find(tmp_path) is None


def test_an_interpreter_that_cannot_be_read_leaves_it_open(tmp_path: Path) -> None:
    assert find_builtins(SONAME, an_environment(interpreter=str(tmp_path / "python")), ()) is None
