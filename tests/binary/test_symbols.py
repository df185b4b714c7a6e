"""The dynamic symbols of libraries that are compiled here, against readelf and the hashes of the specifications."""

import ctypes
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.reader import BytesReader
from envdoctor.binary.symbols import SymbolTable, Version, gnu_hash, system_v_hash
from tests.compiler import build_library, needs_compiler

SOURCE = """
extern "C" {
int shown() { return 1; }
__attribute__((visibility("hidden"))) int hidden() { return 2; }
int data = 3;
void gone();
void perhaps() __attribute__((weak));
int use() { gone(); if (perhaps) perhaps(); return hidden(); }
}
"""


def table_of(library: Path) -> SymbolTable:
    return SymbolTable(parse_elf(BytesReader(library.read_bytes())))


def defines(table: SymbolTable, name: str, version: Version | None = None) -> bool:
    return table.defines(name.encode(), gnu_hash(name.encode()), version)


# The values of the first two are those of the GNU and the System V documents' own example, `printf` and `exit`.
@pytest.mark.parametrize(
    ("name", "gnu", "system_v"),
    [
        (b"printf", 0x156B2BB8, 0x077905A6),
        (b"exit", 0x7C967E3F, 0x0006CF04),
        (b"", 0x00001505, 0),
    ],
)
def test_hashes_are_those_of_the_specifications(name: bytes, gnu: int, system_v: int) -> None:
    assert gnu_hash(name) == gnu
    assert system_v_hash(name) == system_v


@given(st.binary(max_size=200) | st.binary(min_size=1023, max_size=1026))
def test_the_fast_hash_is_the_one_of_the_definition(name: bytes) -> None:
    value = 5381
    for octet in name:
        value = ctypes.c_uint32(value * 33 + octet).value

    assert gnu_hash(name) == value


@needs_compiler
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_definitions_are_found_and_others_are_not(style: str, tmp_path: Path) -> None:
    table = table_of(build_library(tmp_path / "liba.so", SOURCE, options=[f"-Wl,--hash-style={style}"]))

    assert [name for name in ("shown", "hidden", "data", "gone", "use", "nothing") if defines(table, name)] == [
        "shown",
        "data",
        "use",
    ]


@needs_compiler
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_references_are_what_is_used_and_not_defined(style: str, tmp_path: Path) -> None:
    table = table_of(build_library(tmp_path / "liba.so", SOURCE, options=[f"-Wl,--hash-style={style}", "-nostdlib"]))

    found = {reference.name: reference.is_weak for reference in table.read_references(with_weak=True)}

    assert found == {b"gone": False, b"perhaps": True}
    assert [reference.name for reference in table.read_references(with_weak=False)] == [b"gone"]


@needs_compiler
def test_a_library_that_defines_nothing_still_has_references(tmp_path: Path) -> None:
    source = 'extern "C" { void gone(); __attribute__((visibility("hidden"))) void (*pointer)() = gone; }'
    table = table_of(build_library(tmp_path / "liba.so", source, options=["-nostdlib", "-Wl,--hash-style=gnu"]))

    assert [reference.name for reference in table.read_references(with_weak=True)] == [b"gone"]


@needs_compiler
def test_calls_are_relocated_behind_data_and_left_out_when_they_are_lazy(tmp_path: Path) -> None:
    source = 'extern "C" { void call(); extern int data; int* pointer = &data; void use() { call(); } }'
    table = table_of(build_library(tmp_path / "liba.so", source, options=["-nostdlib"]))
    names = {reference.symbol: reference.name for reference in table.read_references(with_weak=True)}

    def relocated(*, with_calls: bool) -> list[bytes]:
        return [names[symbol] for symbol in table.read_relocated(with_calls=with_calls) if symbol in names]

    assert relocated(with_calls=True) == [b"data", b"call"]
    assert relocated(with_calls=False) == [b"data"]


@needs_compiler
def test_versions_are_told(tmp_path: Path) -> None:
    script = tmp_path / "versions.map"
    script.write_text("LIB_A { global: old; local: *; }; LIB_B { global: fresh; } LIB_A;")
    source = 'extern "C" { void old() {} void fresh() {} void inner() {} }'
    needed = build_library(tmp_path / "libneeded.so", source, options=[f"-Wl,--version-script,{script}"])
    use = 'extern "C" { void old(); void fresh(); void use() { old(); fresh(); } }'
    user = table_of(build_library(tmp_path / "libuse.so", use, needs=[needed], options=["-nostdlib"]))
    table = table_of(needed)

    names = (b"libneeded.so", b"LIB_A", b"LIB_B")
    assert table.defined_versions == {name: system_v_hash(name) for name in names}
    assert {(need.file, need.name) for need in user.needed_versions} == {
        ("libneeded.so", b"LIB_A"),
        ("libneeded.so", b"LIB_B"),
    }
    assert {reference.name: reference.version for reference in user.read_references(with_weak=True)} == {
        b"old": Version(b"LIB_A", file="libneeded.so"),
        b"fresh": Version(b"LIB_B", file="libneeded.so"),
    }
    assert defines(table, "old", Version(b"LIB_A"))
    assert not defines(table, "old", Version(b"LIB_B"))
    assert defines(table, "old")
    assert not defines(table, "inner", Version(b"LIB_A"))


@needs_compiler
def test_a_library_without_versions_satisfies_any(tmp_path: Path) -> None:
    table = table_of(build_library(tmp_path / "liba.so", 'extern "C" void f() {}', options=["-nostdlib"]))

    assert table.defined_versions is None
    assert defines(table, "f", Version(b"LIB_A"))
