"""The cache of the dynamic loader: the real one of this machine, and made ones for what it does not hold."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.binary.loader_cache import MAGIC, find_in_loader_cache
from envdoctor.binary.reader import BinaryError
from tests.host_tree import AARCH64_LIBRARY, I386_LIBRARY, X86_64_LIBRARY, a_loader_cache, ask_ldconfig

REAL = Path("/etc/ld.so.cache")


def test_the_paths_of_a_name_come_in_order() -> None:
    paths = ["/compat/libcuda.so.1", "/usr/lib/libcuda.so.1"]
    cache = a_loader_cache(("libcuda.so.1", path, X86_64_LIBRARY) for path in paths)

    assert list(find_in_loader_cache(cache, "libcuda.so.1", "x86_64")) == paths


def test_other_names_do_not_answer() -> None:
    names = ["libcuda.so.10", "mylibcuda.so.1", "libcuda.so"]
    cache = a_loader_cache((name, f"/lib/{name}", X86_64_LIBRARY) for name in names)

    assert list(find_in_loader_cache(cache, "libcuda.so.1", "x86_64")) == []


@pytest.mark.parametrize(("machine", "path"), [("x86_64", "/64"), ("aarch64", "/arm")])
def test_libraries_of_other_machines_do_not_answer(machine: str, path: str) -> None:
    kinds = {"/32": I386_LIBRARY, "/64": X86_64_LIBRARY, "/arm": AARCH64_LIBRARY}
    cache = a_loader_cache(("libcuda.so.1", path, flags) for path, flags in kinds.items())

    assert list(find_in_loader_cache(cache, "libcuda.so.1", machine)) == [path]


def test_the_cache_may_stand_behind_one_of_the_old_format() -> None:
    cache = a_loader_cache([("libcuda.so.1", "/usr/lib/libcuda.so.1", X86_64_LIBRARY)])

    found = list(find_in_loader_cache(b"ld.so-1.7.0\0" + bytes(100) + cache, "libcuda.so.1", "x86_64"))

    assert found == ["/usr/lib/libcuda.so.1"]


@pytest.mark.parametrize("content", [b"", b"ld.so-1.7.0", MAGIC, MAGIC + struct.pack("<I", 9) + bytes(24)])
def test_what_is_no_cache_is_one_error(content: bytes) -> None:
    with pytest.raises(BinaryError):
        list(find_in_loader_cache(content, "libcuda.so.1", "x86_64"))


@given(st.binary(max_size=400))
def test_any_bytes_give_paths_or_the_one_error(tail: bytes) -> None:
    try:
        paths = list(find_in_loader_cache(MAGIC + tail, "libcuda.so.1", "x86_64"))
    except BinaryError:
        return
    assert all(isinstance(path, str) for path in paths)


def test_the_cache_of_this_machine_reads_as_ldconfig_reads_it() -> None:
    expected = ask_ldconfig("libc.so.6")

    assert next(find_in_loader_cache(REAL.read_bytes(), "libc.so.6", os.uname().machine)) == expected
