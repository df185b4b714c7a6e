"""Where the loader searches: variables, search paths, and the choice of the cache."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.binary import elf as layout
from envdoctor.binary.library_search import (
    SearchRules,
    expand,
    find_cached,
    split_library_path,
    split_preload,
    split_preload_file,
    split_search_path,
)
from envdoctor.binary.loader_cache import CachedLibrary, read_loader_cache
from tests.compiler import build_library, needs_compiler

RULES = SearchRules(
    machine=layout.MACHINE_X86_64,
    glibc=(2, 36),
    library_path=(),
    cache={},
    default_folders=("/lib64/", "/usr/lib64/"),
    capabilities=("glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2", "tls"),
    lib="lib64",
    platform="haswell",
)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("/usr/lib", "/usr/lib"),
        ("$ORIGIN/../lib", "/env/pkg/../lib"),
        ("${ORIGIN}", "/env/pkg"),
        ("$ORIGINAL", "$ORIGINAL"),
        ("$HOME/lib", "$HOME/lib"),
        ("/opt/$LIB/${PLATFORM}", "/opt/lib64/haswell"),
    ],
)
def test_variables_are_replaced(text: str, expanded: str) -> None:
    assert expand(text, "/env/pkg", RULES) == expanded


def test_what_has_no_value_leaves_nothing() -> None:
    assert expand("/opt/$PLATFORM", "/env", replace(RULES, platform="")) == ""


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("", []),
        ("/a:/b/", ["/a/", "/b/"]),
        ("/a//:/a", ["/a/"]),
        (":/a", ["", "/a/"]),
        ("/", ["/"]),
        ("relative", ["relative/"]),
        ("/opt/$PLATFORM:/a", ["/a/"]),
    ],
)
def test_a_search_path_is_split_into_folders(text: str, folders: list[str]) -> None:
    found = split_search_path(text, "RUNPATH", "/env", replace(RULES, platform=""))

    assert [folder.path for folder in found] == folders


def test_variables_of_the_process_are_split() -> None:
    assert split_library_path("") == ()
    assert split_library_path("/a;/b:") == ("/a", "/b", "")
    assert split_preload(" liba.so:/b.so  libc.so") == ("liba.so", "/b.so", "libc.so")
    assert split_preload("/a.so#1 /b.so") == ("/a.so#1", "/b.so")
    assert split_preload_file("# vGPU\n/usr/local/vgpu/libvgpu.so\t# more\n\n") == ("/usr/local/vgpu/libvgpu.so",)


@pytest.mark.parametrize(
    ("libraries", "chosen"),
    [
        ([], ""),
        ([CachedLibrary("/a", ""), CachedLibrary("/b", "")], "/a"),
        ([CachedLibrary("/plain", ""), CachedLibrary("/v2", "x86-64-v2"), CachedLibrary("/v3", "x86-64-v3")], "/v3"),
        ([CachedLibrary("/v4", "x86-64-v4"), CachedLibrary("/plain", "")], "/plain"),
        ([CachedLibrary("/v4", "x86-64-v4")], ""),
    ],
)
def test_the_cache_gives_the_best_file_for_this_processor(libraries: list[CachedLibrary], chosen: str) -> None:
    rules = replace(RULES, cache={"libx.so": tuple(libraries)})

    assert find_cached("libx.so", rules) == chosen
    assert find_cached("liby.so", rules) == ""


@needs_compiler
def test_a_cache_of_ldconfig_tells_what_processors_its_files_need(tmp_path: Path) -> None:
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig is None:
        pytest.skip("there is no ldconfig to make a cache with")
    library = build_library(tmp_path / "libenvdoctor.so.1")
    better = build_library(tmp_path / "glibc-hwcaps" / "x86-64-v3" / "libenvdoctor.so.1")
    (tmp_path / "ld.so.conf").write_text(f"{tmp_path}\n")
    cache = tmp_path / "ld.so.cache"
    subprocess.run([ldconfig, "-X", "-f", tmp_path / "ld.so.conf", "-C", cache], check=True, capture_output=True)

    found = read_loader_cache(cache.read_bytes(), "x86_64")["libenvdoctor.so.1"]

    assert set(found) == {CachedLibrary(str(library), ""), CachedLibrary(str(better), "x86-64-v3")}
