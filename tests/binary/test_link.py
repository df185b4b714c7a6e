"""The emulated loader against the real one: libraries compiled here, every message compared."""

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor.binary.elf import MACHINE_AARCH64, TAG_VERSION_NEEDS, parse_elf
from envdoctor.binary.link import Process, start_process
from envdoctor.binary.loadable import LibraryFile
from envdoctor.binary.reader import BinaryError, BytesReader
from envdoctor.binary.symbols import SymbolTable, system_v_hash
from envdoctor.model.loading import LoadFailure, LoadFault
from envdoctor.probes.loader_files import LoaderFiles
from tests.binary.loaders import PROGRAM, ask, needs_glibc, predict, rules_of_this_machine, start
from tests.compiler import COMPILER, build_library, needs_compiler

pytestmark = [needs_compiler, needs_glibc]

CALLS = 'extern "C" void {0}(); extern "C" void use_{0}() {{ {0}(); }}'
DEFINES = 'extern "C" void {0}() {{}}'


def agreed(paths: list[Path], variables: dict[str, str] | None = None) -> list[str]:
    """What the real loader says, after seeing that the emulated one says the same."""
    said = ask(paths, variables)
    assert predict(paths, variables) == said
    return said


def versions(folder: Path, text: str) -> str:
    """The option of the linker for a version script."""
    script = folder / "versions.map"
    script.write_text(text)
    return f"-Wl,--version-script,{script}"


# --- the file itself ---------------------------------------------------------------------------------------------


def patched(offset: int, layout: str, *values: int) -> Callable[[bytes], bytes]:
    """Change a field of the header."""

    def patch(content: bytes) -> bytes:
        changed = bytearray(content)
        struct.pack_into(layout, changed, offset, *values)
        return bytes(changed)

    return patch


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "shorter than its header": lambda content: content[:63],
    "cut off in the segment headers": lambda content: content[:100],
    "a pointer of Git LFS": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\n",
    "32 bits": patched(4, "<B", 1),
    "big-endian": patched(5, "<B", 2),
    "another version of its ident": patched(6, "<B", 2),
    "another system": patched(7, "<B", 9),
    "another version of the ABI": patched(8, "<B", 9),
    "something in the padding": patched(9, "<B", 9),
    "an object file": patched(16, "<H", 1),
    "a program": patched(16, "<H", 2),
    "another machine": patched(18, "<H", 243),
    "another version": patched(20, "<I", 2),
    "another size of segment headers": patched(54, "<H", 32),
    "no segments": patched(56, "<H", 0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_the_loaders_words(damage: str, tmp_path: Path) -> None:
    library = build_library(tmp_path / "liba.so", DEFINES.format("a"))
    library.write_bytes(DAMAGES[damage](library.read_bytes()))

    [words] = agreed([library])

    assert words.startswith(f"{library}: ")


def test_what_cannot_be_opened_is_said_with_its_reason(tmp_path: Path) -> None:
    loop = tmp_path / "loop.so"
    loop.symlink_to(loop)
    (tmp_path / "file").touch()

    missing, folder, endless, below_file = agreed(
        [tmp_path / "missing.so", tmp_path, loop, tmp_path / "file" / "liba.so"]
    )

    assert missing.endswith("cannot open shared object file: No such file or directory")
    assert folder.endswith("cannot read file data: Is a directory")
    assert endless.endswith("cannot open shared object file: Too many levels of symbolic links")
    assert below_file.endswith("cannot open shared object file: Not a directory")


def test_a_library_that_is_cut_off_anywhere_ends_as_predicted(tmp_path: Path) -> None:
    content = build_library(tmp_path / "liba.so", DEFINES.format("a") + "int big[30000] = {1};").read_bytes()
    pieces = []
    for size in range(0, len(content), len(content) // 40):
        piece = tmp_path / f"cut{size}.so"
        piece.write_bytes(content[:size])
        pieces.append(piece)

    words = agreed(pieces)

    assert {"", "Bus error"} <= set(words)


def test_a_program_is_not_opened() -> None:
    assert "cannot dynamically load" in agreed([Path(PROGRAM)])[0]


def test_a_library_may_forbid_to_be_opened(tmp_path: Path) -> None:
    library = build_library(tmp_path / "liba.so", options=["-Wl,-z,nodlopen"])

    assert agreed([library]) == [f"{library}: shared object cannot be dlopen()ed"]


class WithoutCode(LoaderFiles):
    """The folder of the test lies on a file system that is mounted with `noexec`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = str(folder)

    def open(self, path: str) -> LibraryFile:
        return super().open(path)._replace(allows_code=not path.startswith(self.folder))


def test_a_file_system_may_forbid_code(tmp_path: Path) -> None:
    """As seen on a tmpfs mounted with `noexec` (glibc 2.36)."""
    library = build_library(tmp_path / "liba.so")

    failure = start(files=WithoutCode(tmp_path)).open(str(library))

    assert failure
    assert failure.words == f"{library}: failed to map segment from shared object"


def test_a_library_without_default_folders_searches_nowhere_else(tmp_path: Path) -> None:
    lost = build_library(tmp_path / "lost" / "liblost.so")
    library = build_library(tmp_path / "liba.so", needs=[lost], options=["-Wl,-z,nodefaultlib", "-nostdlib"])

    assert agreed([library]) == ["liblost.so: cannot open shared object file"]
    assert agreed([library], {"LD_LIBRARY_PATH": f"{lost.parent}"}) == [""]


# --- needed libraries --------------------------------------------------------------------------------------------


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    lost = build_library(tmp_path / "liblost.so")
    middle = build_library(tmp_path / "libmiddle.so", needs=[lost], options=[f"-Wl,-rpath,{tmp_path}"])
    library = build_library(tmp_path / "libtop.so", needs=[middle], options=[f"-Wl,-rpath,{tmp_path}"])
    lost.unlink()

    [words] = agreed([library])
    failure = start().open(str(library))

    assert words == "liblost.so: cannot open shared object file: No such file or directory"
    assert failure
    assert failure.fault is LoadFault.LIBRARY
    assert failure.file == str(middle)
    assert failure.name == "liblost.so"
    assert failure.chain == (str(library), str(middle))


@pytest.mark.parametrize("kind", ["--enable-new-dtags", "--disable-new-dtags"])
def test_rpath_is_inherited_and_runpath_is_not(kind: str, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    deep = build_library(tmp_path / "below" / "libdeep.so")
    middle = build_library(tmp_path / "below" / "libmiddle.so", needs=[deep])
    top = build_library(tmp_path / "libtop.so", needs=[middle], options=["-Wl,-rpath,$ORIGIN/below", f"-Wl,{kind}"])

    [words] = agreed([top])

    assert bool(words) == (kind == "--enable-new-dtags")


@pytest.mark.parametrize("kind", ["--enable-new-dtags", "--disable-new-dtags"])
def test_the_library_path_comes_before_runpath_and_behind_rpath(kind: str, tmp_path: Path) -> None:
    own = build_library(tmp_path / "own" / "libb.so", DEFINES.format("b"))
    build_library(tmp_path / "other" / "libb.so", DEFINES.format("something_else"))
    top = build_library(
        tmp_path / "libtop.so", CALLS.format("b"), needs=[own], options=["-Wl,-rpath,$ORIGIN/own", f"-Wl,{kind}"]
    )

    [words] = agreed([top], {"LD_LIBRARY_PATH": str(tmp_path / "other")})

    assert words == ("" if kind == "--disable-new-dtags" else f"{top}: undefined symbol: b")


@pytest.mark.parametrize("separator", [":", ";"])
def test_an_empty_entry_of_the_library_path_is_the_working_folder(
    separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = build_library(tmp_path / "libneeded.so")
    top = build_library(tmp_path / "libtop.so", needs=[needed])
    monkeypatch.chdir(tmp_path)

    assert agreed([top], {"LD_LIBRARY_PATH": f"/nowhere{separator}"}) == [""]


def test_a_damaged_file_in_the_working_folder_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = build_library(tmp_path / "libneeded.so")
    top = build_library(tmp_path / "libtop.so", needs=[needed])
    needed.write_bytes(b"")
    monkeypatch.chdir(tmp_path)

    assert agreed([top], {"LD_LIBRARY_PATH": ":/nowhere"}) == ["libneeded.so: file too short"]


def test_a_needed_library_may_be_named_by_its_place(tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so", options=["-Wl,-soname,$ORIGIN/inner/libgone.so"])
    top = build_library(tmp_path / "libtop.so", needs=[gone])

    [words] = agreed([top])

    assert words.startswith(f"{tmp_path}/inner/libgone.so: cannot open shared object file")


def test_the_search_goes_past_files_for_other_machines_and_stops_at_damaged_ones(tmp_path: Path) -> None:
    needed = build_library(tmp_path / "good" / "libneeded.so")
    top = build_library(tmp_path / "libtop.so", needs=[needed])
    content = needed.read_bytes()
    for name, damage in {"foreign": "another machine", "small": "32 bits", "empty": "empty"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "libneeded.so").write_bytes(DAMAGES[damage](content))

    def said(*folders: str) -> str:
        return agreed([top], {"LD_LIBRARY_PATH": ":".join(str(tmp_path / folder) for folder in folders)})[0]

    assert said("foreign", "small", "good") == ""
    assert said("small") == "libneeded.so: wrong ELF class: ELFCLASS32"
    assert said("foreign") == "libneeded.so: cannot open shared object file: No such file or directory"
    assert said("empty", "good") == f"{tmp_path}/empty/libneeded.so: file too short"


def test_a_subfolder_for_this_processor_comes_first(tmp_path: Path) -> None:
    needed = build_library(tmp_path / "libneeded.so", DEFINES.format("needed"))
    top = build_library(tmp_path / "libtop.so", CALLS.format("needed"), needs=[needed])
    for level in ("x86-64-v2", "x86-64-v4", "unknown"):
        build_library(tmp_path / "glibc-hwcaps" / level / "libneeded.so", DEFINES.format("something_else"))

    agreed([top], {"LD_LIBRARY_PATH": str(tmp_path)})


def test_a_library_is_known_by_its_soname_wherever_it_lies(tmp_path: Path) -> None:
    lost = build_library(tmp_path / "liblost.so", DEFINES.format("lost"))
    top = build_library(tmp_path / "libtop.so", CALLS.format("lost"), needs=[lost])
    moved = tmp_path / "moved-0123.so"
    lost.rename(moved)

    assert predict([top], first=[(moved, False)]) == ask([top], first=[(moved, False)]) == [""]


def test_a_loaded_file_opens_under_any_of_its_paths(tmp_path: Path) -> None:
    library = build_library(tmp_path / "liba.so")
    link = tmp_path / "link.so"
    link.symlink_to(library)
    process = start()

    assert process.open(str(library)) is None
    before = process.loaded
    assert process.open(str(link)) is None
    assert process.loaded == before


def test_what_is_loaded_tells_where_it_came_from(tmp_path: Path) -> None:
    needed = build_library(tmp_path / "libneeded.so")
    top = build_library(tmp_path / "libtop.so", needs=[needed], options=["-Wl,-rpath,$ORIGIN"])
    process = start()
    before = len(process.loaded)
    process.open(str(top))

    opened, found = process.loaded[before:][:2]

    assert (opened.path, opened.found_through) == (str(top), "path")
    assert (found.name, found.path, found.needed_by) == ("libneeded.so", str(needed), str(top))
    assert (found.found_through, found.folder) == ("RUNPATH", f"{tmp_path}/")
    assert process.find("libneeded.so", str(top)) is not None
    assert process.find("libneeded.so", "/elsewhere.so") is not None  # it is loaded
    assert process.find("libnowhere.so", str(top)) is None


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    needed = build_library(tmp_path / "libneeded.so")
    top = build_library(tmp_path / "libtop.so", CALLS.format("gone"), needs=[needed], options=["-Wl,-rpath,$ORIGIN"])
    process = start()
    before = process.loaded

    assert process.open(str(top))
    assert process.loaded == before


def test_room_for_thread_local_variables_is_not_told(tmp_path: Path) -> None:
    """A limit: how much of it is left depends on what the process has used before, by the order of its imports."""
    source = '__attribute__((tls_model("initial-exec"))) __thread char block[1 << 20]; char* find() { return block; }'
    library = build_library(tmp_path / "libgreedy.so", source)

    assert ask([library]) == [f"{library}: cannot allocate memory in static TLS block"]
    assert predict([library]) == [""]


def test_copies_go_on_by_themselves(tmp_path: Path) -> None:
    process = start()
    copy = process.copy()
    copy.open(str(build_library(tmp_path / "liba.so")))

    assert len(copy.loaded) > len(process.loaded)


def test_a_preloaded_library_lends_its_symbols(tmp_path: Path) -> None:
    lender = build_library(tmp_path / "liblender.so", DEFINES.format("lent"))
    top = build_library(tmp_path / "libtop.so", CALLS.format("lent"))

    assert agreed([top]) == [f"{top}: undefined symbol: lent"]
    assert agreed([top], {"LD_PRELOAD": f"/nowhere.so:{lender}"}) == [""]


# --- programs with a search path of their own, as conda's Python has ---------------------------------------------

OPENS_ITS_ARGUMENTS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** names) {
    for (int i = 1; i < count; i++) puts(dlopen(names[i], RTLD_NOW) ? "" : dlerror());
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in `bin` that searches in the `lib` beside it (DT_RPATH)."""
    path = tmp_path / "bin" / "program"
    path.parent.mkdir()
    command = [COMPILER or "g++", "-o", str(path), "-x", "c++", "-", "-ldl"]
    command += ["-Wl,-rpath,$ORIGIN/../lib", "-Wl,--disable-new-dtags"]
    subprocess.run(command, input=OPENS_ITS_ARGUMENTS, text=True, check=True)
    return path


@pytest.mark.parametrize("library_path", ["", "other"])
@pytest.mark.parametrize("runpath", ["", "/nowhere"])
def test_everybody_searches_where_the_program_says(
    runpath: str, library_path: str, program: Path, tmp_path: Path
) -> None:
    """Before LD_LIBRARY_PATH; but for libraries that have a search path of their own."""
    needed = build_library(tmp_path / "lib" / "libneeded.so", DEFINES.format("f"))
    build_library(tmp_path / "other" / "libneeded.so", DEFINES.format("something_else"))
    options = [f"-Wl,-rpath,{runpath}", "-Wl,--enable-new-dtags"] if runpath else []
    library = build_library(tmp_path / "site" / "liba.so", CALLS.format("f"), needs=[needed], options=options)
    variables = {"LD_LIBRARY_PATH": str(tmp_path / library_path)} if library_path else {}
    done = subprocess.run([program, library], env=variables, capture_output=True, text=True, check=True)

    process = start(variables, program=program)
    failure = process.open(str(library))

    assert (failure.words if failure else "") == done.stdout.strip()


def test_a_program_that_does_not_start_says_why(tmp_path: Path, program: Path) -> None:
    needed = build_library(tmp_path / "lib" / "libneeded.so")
    broken = program.with_name("broken")
    command = [COMPILER or "g++", "-o", str(broken), "-x", "c++", "-", "-x", "none", "-Wl,--no-as-needed", str(needed)]
    subprocess.run(command, input="int main() {}", text=True, check=True)
    needed.unlink()
    said = subprocess.run([broken], capture_output=True, text=True, check=False).stderr.strip()

    refused = start_process(LoaderFiles(), rules_of_this_machine(), str(broken), ())

    assert isinstance(refused, LoadFailure)
    assert refused.words == said


@pytest.mark.parametrize("content", [None, b"#!/bin/sh"])
def test_what_is_no_program_does_not_start(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "program"
    if content:
        path.write_bytes(content)

    refused = start_process(LoaderFiles(), rules_of_this_machine(), str(path), ())

    assert isinstance(refused, LoadFailure)
    assert refused.fault is LoadFault.FILE


# --- symbols -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_an_undefined_symbol_is_found_with_any_hash_table(style: str, tmp_path: Path) -> None:
    hashed = [f"-Wl,--hash-style={style}", "-Wl,-rpath,$ORIGIN"]
    needed = build_library(
        tmp_path / "libneeded.so", "".join(DEFINES.format(f"f{n}") for n in range(50)), options=hashed
    )
    calls = "".join(CALLS.format(f"f{n}") for n in range(50))
    good = build_library(tmp_path / "libgood.so", calls, needs=[needed], options=hashed)
    bad = build_library(tmp_path / "libbad.so", calls + CALLS.format("gone"), needs=[needed], options=hashed)

    assert agreed([good, bad]) == ["", f"{bad}: undefined symbol: gone"]


def test_the_first_relocation_decides_which_symbol_is_named(tmp_path: Path) -> None:
    """Data before functions, whatever the symbol table says."""
    source = """
    extern "C" { void z(); void a(); extern int m; extern int b; int* p = &m; int* q = &b; void f() { z(); a(); } }
    """
    library = build_library(tmp_path / "liba.so", source)

    [words] = agreed([library])
    failure = start().open(str(library))

    assert failure
    assert failure.fault is LoadFault.SYMBOL
    assert set(failure.undefined) == {"z", "a", "m", "b"}
    assert words.endswith(failure.undefined[0])


def test_a_weak_symbol_may_be_missing(tmp_path: Path) -> None:
    source = 'extern "C" void maybe() __attribute__((weak)); extern "C" void f() { if (maybe) maybe(); }'

    assert agreed([build_library(tmp_path / "liba.so", source)]) == [""]


def test_a_hidden_symbol_is_no_definition(tmp_path: Path) -> None:
    needed = build_library(
        tmp_path / "libneeded.so", DEFINES.format("f"), options=[versions(tmp_path, "{ local: f; };")]
    )
    top = build_library(tmp_path / "libtop.so", CALLS.format("f"), needs=[needed], options=["-Wl,-rpath,$ORIGIN"])

    assert agreed([top]) == [f"{top}: undefined symbol: f"]


def test_special_symbols_are_definitions(tmp_path: Path) -> None:
    source = """
    extern "C" { thread_local int tls = 1; void real() {} void (*choose())() { return real; }
    void chosen() __attribute__((ifunc("choose"))); }
    template <typename T> struct One { static int unique; }; template <typename T> int One<T>::unique = 1;
    int* instance = &One<int>::unique;
    """
    use = """
    extern "C" { extern thread_local int tls; void chosen(); int f() { chosen(); return tls; } }
    template <typename T> struct One { static int unique; }; extern template struct One<int>;
    int* other() { return &One<int>::unique; }
    """
    needed = build_library(tmp_path / "libneeded.so", source)
    top = build_library(tmp_path / "libtop.so", use, needs=[needed], options=["-Wl,-rpath,$ORIGIN"])

    assert agreed([top]) == [""]


def test_a_symbol_of_a_library_that_was_opened_locally_is_not_seen(tmp_path: Path) -> None:
    other = build_library(tmp_path / "libother.so", DEFINES.format("f"))
    top = build_library(tmp_path / "libtop.so", CALLS.format("f"))

    for is_global in (False, True):
        said = ask([top], first=[(other, is_global)])

        assert predict([top], first=[(other, is_global)]) == said
        assert bool(said[0]) == (not is_global)


def test_what_is_needed_is_relocated_first(tmp_path: Path) -> None:
    """Of two libraries that both lack a symbol, the needed one is named; of two needed ones, the later."""
    options = ["-Wl,-rpath,$ORIGIN"]
    first = build_library(tmp_path / "libfirst.so", CALLS.format("gone1"))
    second = build_library(tmp_path / "libsecond.so", CALLS.format("gone2"))
    third = build_library(tmp_path / "libthird.so", CALLS.format("gone3"), needs=[first], options=options)
    tops = [
        build_library(tmp_path / "libtop1.so", CALLS.format("gone4"), needs=[first, second], options=options),
        build_library(tmp_path / "libtop2.so", needs=[second, third], options=options),
        build_library(tmp_path / "libtop3.so", needs=[third, first, second], options=options),
    ]

    assert all("undefined symbol: gone" in words for words in agreed(tops))


# --- versions ----------------------------------------------------------------------------------------------------


@pytest.fixture
def versioned(tmp_path: Path) -> tuple[Path, Path]:
    """A library with the versions A and B, and one that needs `f` of version B."""
    script = versions(tmp_path, "LIB_A { global: e; local: *; }; LIB_B { global: f; } LIB_A;")
    needed = build_library(tmp_path / "libneeded.so", DEFINES.format("e") + DEFINES.format("f"), options=[script])
    top = build_library(tmp_path / "libtop.so", CALLS.format("f"), needs=[needed], options=["-Wl,-rpath,$ORIGIN"])
    return needed, top


def test_a_missing_version_is_named_with_both_libraries(versioned: tuple[Path, Path]) -> None:
    needed, top = versioned
    build_library(needed, DEFINES.format("e"), options=[versions(needed.parent, "LIB_A { global: e; local: *; };")])

    [words] = agreed([top])
    failure = start().open(str(top))

    assert words == f"{needed}: version `LIB_B' not found (required by {top})"
    assert failure
    assert failure.fault is LoadFault.VERSION
    assert (failure.file, failure.name) == (str(top), "LIB_B")
    assert failure.provider
    assert failure.provider.path == str(needed)


def test_packed_relocations_must_be_announced(tmp_path: Path) -> None:
    """Linkers do; here the announcement is made another version."""
    source = "#include <stdlib.h>\nint value; int* pointer = &value; void use() { abort(); }"
    library = build_library(tmp_path / "liba.so", source, options=["-Wl,-z,pack-relative-relocs"])
    announced, other = b"GLIBC_ABI_DT_RELR", b"GLIBC_2.2.5"
    content = library.read_bytes()
    if announced not in content:
        pytest.skip("the linker cannot pack relocations")
    old_hash, new_hash = (system_v_hash(name).to_bytes(4, "little") for name in (announced, other))
    content = content.replace(announced, other.ljust(len(announced), b"\0"))
    library.write_bytes(content.replace(old_hash, new_hash))

    assert agreed([library]) == [f"{library}: DT_RELR without GLIBC_ABI_DT_RELR dependency"]


def test_a_version_of_a_library_that_is_not_needed_ends_the_process(versioned: tuple[Path, Path]) -> None:
    _, top = versioned
    table = SymbolTable(parse_elf(BytesReader(top.read_bytes())))
    content = bytearray(top.read_bytes())
    place = table.elf.offset_of(table.elf.dynamic_value(TAG_VERSION_NEEDS) or 0)
    struct.pack_into("<I", content, place + 4, content.index(b"use_f\0") - table.elf.dynamic_strings[0])
    top.write_bytes(content)

    [words] = predict([top])

    assert ask([top]) == ["exit"]  # the loader prints it by itself, with the line of its source
    assert words == "Inconsistency detected by ld.so: dl-version.c: Assertion `needed != NULL' failed!"


@pytest.mark.parametrize(
    ("source", "script"),
    [
        ("e f", "LIB_A { global: e; local: *; }; LIB_B { global: f; } LIB_A;"),  # as it was
        ("e f", "LIB_A { global: e; f; local: *; }; LIB_B { } LIB_A;"),  # `f` has another version
        ("e g", "LIB_A { global: e; local: *; }; LIB_B { global: g; } LIB_A;"),  # no `f`
        ("e f", ""),  # no versions at all
        ("e g", ""),
    ],
)
def test_a_symbol_is_looked_up_in_its_version(source: str, script: str, versioned: tuple[Path, Path]) -> None:
    needed, top = versioned
    build_library(
        needed,
        "".join(map(DEFINES.format, source.split())),
        options=[versions(needed.parent, script)] if script else [],
    )

    agreed([top])


def test_without_a_version_the_oldest_definition_is_taken(tmp_path: Path) -> None:
    """Several versions of a symbol, the default one among them, and a library that was linked without any."""
    source = """
    extern "C" { void f1() {} void f2() {} void g1() {} void g2() {} void h() {} }
    __asm__(".symver f1,f@LIB_A"); __asm__(".symver f2,f@@LIB_B");
    __asm__(".symver g1,g@LIB_B"); __asm__(".symver h,i@LIB_B");
    """
    script = versions(tmp_path, "LIB_A { }; LIB_B { } LIB_A;")
    plain = build_library(tmp_path / "libneeded.so", "".join(map(DEFINES.format, "fgi")))
    tops = [
        build_library(tmp_path / f"libuse_{name}.so", CALLS.format(name), needs=[plain], options=["-Wl,-rpath,$ORIGIN"])
        for name in "fgi"
    ]
    build_library(plain, source, options=[script])

    agreed(tops)


# --- another machine ---------------------------------------------------------------------------------------------


def test_libraries_for_aarch64_load_in_a_program_for_aarch64(tmp_path: Path) -> None:
    """Made of libraries for this machine: the formats differ in nothing else that is looked at."""
    needed = build_library(tmp_path / "libneeded.so", DEFINES.format("f"), options=["-nostdlib"])
    options = ["-nostdlib", "-Wl,-rpath,$ORIGIN"]
    top = build_library(tmp_path / "libtop.so", CALLS.format("f"), needs=[needed], options=options)
    foreign = build_library(tmp_path / "libforeign.so", options=["-nostdlib"])
    program = build_library(tmp_path / "program", options=["-nostdlib"])
    for path in (needed, top, program):
        path.write_bytes(patched(18, "<H", MACHINE_AARCH64)(path.read_bytes()))
    rules = replace(rules_of_this_machine(), machine=MACHINE_AARCH64)

    process = start_process(LoaderFiles(), rules, str(program), ())

    assert isinstance(process, Process)
    assert process.open(str(top)) is None
    assert [library.name for library in process.loaded] == [str(program), str(top), "libneeded.so"]
    failure = process.open(str(foreign))
    assert failure
    assert failure.words == f"{foreign}: cannot open shared object file: No such file or directory"


# --- other releases of glibc -------------------------------------------------------------------------------------


def said_by(glibc: tuple[int, int], library: Path) -> str:
    failure = start(glibc=glibc).open(str(library))
    return failure.words if failure else ""


def test_before_2_30_a_missing_symbol_with_a_version_names_the_file_that_should_have_it(
    versioned: tuple[Path, Path],
) -> None:
    """glibc 2.27, elf/dl-lookup.c, `_dl_lookup_symbol_x`."""
    needed, top = versioned
    script = "LIB_A { global: e; local: *; }; LIB_B { global: g; } LIB_A;"
    build_library(needed, "".join(map(DEFINES.format, "eg")), options=[versions(needed.parent, script)])

    assert said_by((2, 30), top) == f"{top}: undefined symbol: f, version LIB_B"
    assert said_by((2, 29), top) == (
        f"{top}: symbol f version LIB_B not defined in file libneeded.so with link time reference"
    )


def test_before_2_30_the_search_ends_at_that_file(versioned: tuple[Path, Path], tmp_path: Path) -> None:
    """A file that comes later in the search, and has the symbol, does not help."""
    needed, top = versioned
    build_library(
        needed, DEFINES.format("f"), options=[versions(needed.parent, "LIB_A { }; LIB_B { local: f; } LIB_A;")]
    )
    later = build_library(tmp_path / "liblater.so", DEFINES.format("f"))
    both = build_library(tmp_path / "libboth.so", needs=[top, needed, later], options=["-Wl,-rpath,$ORIGIN"])

    assert agreed([both]) == [""]
    assert said_by((2, 29), both).endswith("with link time reference")


def test_since_2_41_no_library_makes_the_stack_executable(tmp_path: Path) -> None:
    """glibc 2.41, elf/dl-load.c, `_dl_map_object_from_fd`."""
    library = build_library(tmp_path / "liba.so", options=["-Wl,-z,execstack"])

    assert said_by((2, 40), library) == ""
    assert said_by((2, 41), library) == (
        f"{library}: cannot enable executable stack as shared object requires: Invalid argument"
    )


def test_before_2_35_the_alignment_that_a_segment_states_counts(tmp_path: Path) -> None:
    """glibc 2.34, elf/dl-load.c, `_dl_map_object_from_fd`."""
    library = build_library(tmp_path / "liba.so")
    content = bytearray(library.read_bytes())
    struct.pack_into("<Q", content, 64 + 48, 64)  # p_align of the first segment
    library.write_bytes(content)

    assert said_by((2, 36), library) == ""
    assert said_by((2, 34), library) == f"{library}: ELF load command alignment not page-aligned"


@pytest.mark.parametrize("glibc", [(2, 27), (2, 36)])
def test_needed_libraries_are_relocated_first_in_every_release(glibc: tuple[int, int], tmp_path: Path) -> None:
    """`libb.so` needs `liba.so` and both lack a symbol; `libtop.so` lists them in the wrong order."""
    options = ["-Wl,-rpath,$ORIGIN"]
    first = build_library(tmp_path / "liba.so", CALLS.format("gone1"))
    second = build_library(tmp_path / "libb.so", CALLS.format("gone2"), needs=[first], options=options)
    top = build_library(tmp_path / "libtop.so", CALLS.format("gone3"), needs=[first, second], options=options)

    assert said_by(glibc, top) == f"{first}: undefined symbol: gone1"


# --- random graphs -----------------------------------------------------------------------------------------------

LIBRARIES = ["libl0.so", "libl1.so", "libl2.so", "libl3.so", "libl4.so"]
SYMBOLS = ["s0", "s1", "s2", "s3"]


@dataclass(frozen=True)
class Node:
    """One library of a graph."""

    needs: list[int]
    defines: list[str]
    uses: list[str]
    is_weak: bool  # what it uses may be missing
    folder: str
    search: str  # its RPATH or RUNPATH
    tags: str
    hash_style: str
    version: str
    is_lost: bool  # once the others are linked with it


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Libraries that need each other, define and use symbols, lie in two folders and search in their own ways."""
    return [
        Node(
            needs=draw(st.lists(st.sampled_from(range(place)), unique=True, max_size=3)) if place else [],
            defines=draw(st.lists(st.sampled_from(SYMBOLS), unique=True, max_size=2)),
            uses=draw(st.lists(st.sampled_from(SYMBOLS), unique=True, max_size=2)),
            is_weak=draw(st.integers(0, 4)) == 0,
            folder=draw(st.sampled_from(["x", "y"])),
            search=draw(st.sampled_from(["", "$ORIGIN", "$ORIGIN/../x", "$ORIGIN/../y:$ORIGIN"])),
            tags=draw(st.sampled_from(["--enable-new-dtags", "--disable-new-dtags"])),
            hash_style=draw(st.sampled_from(["gnu", "sysv"])),
            version=draw(st.sampled_from(["", "", "LIB_A", "LIB_B"])),
            is_lost=draw(st.integers(0, 6)) == 0,
        )
        for place in range(len(LIBRARIES))
    ]


def build_graph(folder: Path, graph: list[Node]) -> list[Path]:
    built: list[Path] = []
    for name, node in zip(LIBRARIES, graph, strict=True):
        path = folder / node.folder / name
        path.parent.mkdir(exist_ok=True)
        build_node(path, node, [built[place] for place in node.needs])
        built.append(path)
    for path, node in zip(built, graph, strict=True):
        if node.is_lost:
            path.unlink()
    return built


def build_node(path: Path, node: Node, needs: list[Path]) -> None:
    weak = "__attribute__((weak))" if node.is_weak else ""
    source = "".join(map(DEFINES.format, node.defines))
    source += "".join(f'extern "C" void {name}() {weak};' for name in sorted({*node.uses} - {*node.defines}))
    source += "void use() {" + "".join(f"{name}();" for name in node.uses) + "}"
    options = [f"-Wl,{node.tags}", f"-Wl,--hash-style={node.hash_style}"]
    options += [f"-Wl,-rpath,{node.search}"] if node.search else []
    options += [versions(path.parent, f"{node.version} {{ global: s*; }};")] if node.version else []
    build_library(path, source, needs=needs, options=options)


@settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))
@given(graph=graphs(), library_path=st.sampled_from(["", "x", "y", "y:x"]))
def test_any_graph_of_libraries_loads_as_predicted(
    graph: list[Node], library_path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    libraries = build_graph(folder, graph)
    entries = ":".join(str(folder / entry) for entry in library_path.split(":") if entry)

    agreed(libraries, {"LD_LIBRARY_PATH": entries} if entries else None)


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("victim")
    needed = build_library(
        folder / "libneeded.so", DEFINES.format("f"), options=[versions(folder, "LIB_A { global: f; };")]
    )
    return build_library(
        folder / "libvictim.so",
        CALLS.format("f") + DEFINES.format("g"),
        needs=[needed],
        options=["-Wl,-rpath,$ORIGIN", "-Wl,--hash-style=both"],
    )


@pytest.fixture(scope="module")
def process() -> Process:
    return start()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=6))
def test_any_damage_gives_an_answer_or_the_one_error(
    changes: list[tuple[float, bytes]], victim: Path, process: Process, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(victim.read_bytes())
    for share, octets in changes:
        place = int(share * min(len(content), 0x600)) if len(octets) % 2 else int(share * len(content))
        content[place : place + len(octets)] = octets
    damaged = tmp_path_factory.mktemp("damaged") / "libvictim.so"
    damaged.write_bytes(content)

    try:
        failure = process.copy().open(str(damaged))
    except BinaryError:
        return
    assert failure is None or failure.words
