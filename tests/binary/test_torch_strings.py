"""What torch's libraries say about their build, against small libraries of a real compiler with the same texts."""

import platform
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor.binary.elf import MACHINE_AARCH64, Elf, parse_elf
from envdoctor.binary.ptxas import read_label
from envdoctor.binary.reader import BinaryError, BytesReader
from envdoctor.binary.torch_strings import (
    arch_list_of_accessor,
    arch_list_of_compiler_flags,
    arch_list_of_strings,
    uses_cxx11_strings,
)
from envdoctor.model.arch import format_arch_list
from tests.compiler import build_library, needs_compiler

pytestmark = needs_compiler
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code of the accessor is read on x86-64 only")

# torch/csrc/cuda/Module.cpp of torch 2.8.0, shortened.
ACCESSOR = """
struct _object;
extern "C" _object* PyUnicode_FromString(const char*);
extern "C" const char torch_archs[];
%s
_object* THCPModule_getArchFlags(_object*, _object*) { return PyUnicode_FromString(torch_archs); }
"""
ALONE = '__asm__(".section .rodata\\ntorch_archs: .asciz \\"sm_50 sm_60 compute_60\\"\\n.text");'
# As in libtorch_python.so of torch 2.8.0: the text of another literal ends where this one begins.
GLUED = '__asm__(".section .rodata\\n.ascii \\"ipc_h\\"\\ntorch_archs: .asciz \\"sm_70 sm_90a sm_120\\"\\n.text");'
# A longer list that belongs to something else.
DECOY = '__asm__(".section .rodata\\n.asciz \\"sm_35 sm_37 sm_50 sm_52 sm_53\\"\\n.text");'


def build(folder: Path, source: str, *options: str) -> Elf:
    return parse_elf(BytesReader(build_library(folder / "library.so", source, options=options).read_bytes()))


# Read in the square of its length, it would take half an hour.
ENDLESS = '__asm__(".section .rodata\\n.rept 200000\\n.ascii \\"sm_50 \\"\\n.endr\\n.asciz \\"x\\"\\n.text");'


def test_a_run_of_names_that_does_not_end_is_no_list(tmp_path: Path) -> None:
    assert arch_list_of_strings(build(tmp_path, ENDLESS)) == ()


@on_x86_64
@pytest.mark.parametrize(
    ("literals", "arch_list"),
    [(ALONE, "sm_50 sm_60 compute_60"), (GLUED, "sm_70 sm_90a sm_120"), (DECOY + ALONE, "sm_50 sm_60 compute_60")],
)
def test_the_code_of_the_accessor_leads_to_its_text(tmp_path: Path, literals: str, arch_list: str) -> None:
    library = build(tmp_path, ACCESSOR % literals)

    assert format_arch_list(arch_list_of_accessor(library)) == arch_list


def test_a_stripped_library_has_no_accessor_but_the_text(tmp_path: Path) -> None:
    library = build(tmp_path, ACCESSOR % GLUED, "-s")

    assert arch_list_of_accessor(library) == ()
    assert format_arch_list(arch_list_of_strings(library)) == "sm_70 sm_90a sm_120"


def test_code_of_another_machine_is_not_decoded(tmp_path: Path) -> None:
    content = bytearray(build_library(tmp_path / "library.so", ACCESSOR % ALONE).read_bytes())
    struct.pack_into("<H", content, 18, MACHINE_AARCH64)
    library = parse_elf(BytesReader(bytes(content)))

    assert arch_list_of_accessor(library) == ()
    assert format_arch_list(arch_list_of_strings(library)) == "sm_50 sm_60 compute_60"


@pytest.mark.parametrize(
    "source",
    ["", 'const char* one = "sm_50 sm_60"; const char* other = "sm_70 sm_80";'],
    ids=["no text", "two texts of the same length"],
)
def test_the_search_does_not_guess(tmp_path: Path, source: str) -> None:
    assert arch_list_of_strings(build(tmp_path, source)) == ()


def test_compiler_flags_keep_their_order_and_ptx(tmp_path: Path) -> None:
    flags = ";".join(f"-gencode;arch=compute_{code[-2:]},code={code}" for code in ("sm_50", "sm_75", "compute_37"))
    library = build(tmp_path, f'const char* flags = "NVCC architecture flags {flags}";')

    assert format_arch_list(arch_list_of_compiler_flags(library)) == "sm_50 sm_75 compute_37"


def test_other_texts_about_gencode_are_not_compiler_flags(tmp_path: Path) -> None:
    library = build(tmp_path, 'const char* help = "nvcc -gencode=arch=compute_80,code=sm_80";')

    assert arch_list_of_compiler_flags(library) == ()


def test_a_library_without_sections_says_nothing(tmp_path: Path) -> None:
    content = bytearray(build_library(tmp_path / "library.so", ACCESSOR % ALONE).read_bytes())
    struct.pack_into("<Q", content, 40, 0)  # e_shoff
    library = parse_elf(BytesReader(bytes(content)))

    assert arch_list_of_accessor(library) == arch_list_of_strings(library) == arch_list_of_compiler_flags(library) == ()


@pytest.mark.parametrize(("macro", "answer"), [("0", False), ("1", True)])
def test_mangled_names_tell_the_abi_of_strings(tmp_path: Path, macro: str, answer: bool) -> None:
    source = "#include <string>\nvoid check(const std::string& name, const std::string& message) {}"
    library = build(tmp_path, source, f"-D_GLIBCXX_USE_CXX11_ABI={macro}")

    assert uses_cxx11_strings(library) is answer


def test_without_strings_in_the_names_the_abi_is_unknown(tmp_path: Path) -> None:
    assert uses_cxx11_strings(build(tmp_path, "void check(const char* name) {}")) is None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    texts = ("-gencode;arch=compute_50,code=sm_50", "lto_75", "Cuda compilation tools, release 13.0, V13.0.88")
    source = ACCESSOR % GLUED + "".join(f'const char* t{n} = "{text}";' for n, text in enumerate(texts))
    return build_library(tmp_path_factory.mktemp("whole") / "library.so", source).read_bytes()


@pytest.mark.parametrize(
    "read",
    [arch_list_of_accessor, arch_list_of_strings, arch_list_of_compiler_flags, uses_cxx11_strings, read_label],
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(places=st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_damage_gives_a_value_or_our_error(
    whole: bytes, read: Callable[[Elf], object], places: list[tuple[int, bytes]]
) -> None:
    content = bytearray(whole)
    for place, change in places:
        content[place % len(content) : place % len(content) + len(change)] = change

    with suppress(BinaryError):
        read(parse_elf(BytesReader(bytes(content))))
