"""The stories of real libraries in a real environment."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from envdoctor import kb
from envdoctor.errors import ProbeError, UnknownLibraryError
from envdoctor.model.facts import Facts, Unavailable
from envdoctor.model.loading import LoadedLibrary, LoadFault
from envdoctor.model.story import LibraryStory, LoadedBy, MissingSymbol, NeededLibrary, Story
from envdoctor.probes.jit_cache import find_jit_extensions
from envdoctor.probes.loader import find_loader
from envdoctor.probes.story import find_story
from tests.builders import an_environment, variables
from tests.compiler import build_library, needs_compiler
from tests.probes.pythons import make_venv
from tests.probes.venvs import SUFFIX, VERSION, Venv, init

pytestmark = needs_compiler
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch in the environment of the tests")

RUNPATH = ("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/lib")


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(make_venv(tmp_path / "venv", VERSION))


def tell(venv: Venv, asked: str, **values: str) -> Story:
    found = venv.installation(**values)
    facts = Facts(
        environment=found.environment,
        distributions=found.distributions,
        torch=found.torch,
        jit_extensions=find_jit_extensions(found.environment, found.torch, found.variables),
        loader=find_loader(found, kb.load()),
        variables=found.variables,
    )
    return find_story(asked, facts, kb.load())


def library(venv: Venv, asked: str, **values: str) -> LibraryStory:
    return tell(venv, asked, **values).library


def needs(story: LibraryStory, name: str) -> NeededLibrary:
    [found] = [needed for needed in story.needed if needed.name == name]
    return found


# --- what a name means -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["x._C", "x", f"_C{SUFFIX}", "_C", "X", "{site}/x/_C" + SUFFIX])
def test_a_library_has_many_names(asked: str, venv: Venv) -> None:
    module = build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"))

    story = library(venv, asked.format(site=venv.site))

    assert (story.path, story.place) == (str(module), f"x/_C{SUFFIX}")
    assert (story.module, story.distribution, story.distribution_version) == ("x._C", "x", "1.0")


def test_a_name_of_a_distribution_is_taken_for_what_it_installs(venv: Venv) -> None:
    module = build_library(venv.package("cv", owned="opencv-python") / f"_C{SUFFIX}", init("_C"))

    assert library(venv, "OpenCV.Python").path == str(module)


def test_torch_is_its_extension_module(venv: Venv) -> None:
    torch = venv.torch()

    story = library(venv, "torch")

    assert (story.module, story.loaded_by, story.failure) == ("torch._C", LoadedBy.TORCH, None)
    assert needs(story, "libtorch.so").taken == LoadedLibrary(
        name="libtorch.so", path=str(torch), found_through="RUNPATH", folder=f"{torch.parent}/", needed_by=story.path
    )


@pytest.mark.parametrize("name", ["libown_cuda.so", "_ops.so", "libowntorch.so"])
def test_a_package_is_also_what_it_opens_by_path(name: str, venv: Venv) -> None:
    path = build_library(venv.package("x") / name)

    assert library(venv, "x").path == str(path)


@needs_torch
@pytest.mark.parametrize("asked", ["torch", "libtorch_cpu.so", "libstdc++.so.6"])
def test_what_a_real_torch_needs_is_what_its_process_maps(asked: str) -> None:
    real = Venv(Path(sys.executable))
    program = "import torch; print(open('/proc/self/maps').read(), end='')"
    maps = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    story = library(real, asked)

    mapped = {line.split(maxsplit=5)[-1] for line in maps.splitlines()}
    needed = [needed.taken.path for needed in story.needed if needed.taken]
    assert {os.path.realpath(path) for path in (story.path, *needed, *(each.path for each in story.brought))} <= mapped
    assert len(needed) == len(story.needed) > 0
    assert (story.failure, story.unpredicted) == (None, "")


def test_a_file_outside_of_the_environment_is_opened_by_its_path(venv: Venv, tmp_path: Path) -> None:
    path = build_library(tmp_path / "libown.so")

    story = library(venv, str(path))

    assert (story.path, story.place, story.distribution, story.failure) == (str(path), str(path), "", None)


def test_a_library_of_the_system_is_the_one_that_the_loader_finds(venv: Venv) -> None:
    told = tell(venv, "libc.so.6")

    story = told.library
    assert story.real_path not in {os.path.realpath(namesake.path) for namesake in told.namesakes}
    assert Path(story.real_path).name.startswith("libc")
    assert story.loaded_by is LoadedBy.PYTHON
    assert story.loaded is not None
    assert story.loaded.path == story.path


def test_of_several_files_the_one_that_is_loaded_is_told_of_first(venv: Venv, tmp_path: Path) -> None:
    own = build_library(venv.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12")
    other = build_library(tmp_path / "other" / "libcublas.so.12")

    story = tell(venv, "libcublas.so.12", LD_LIBRARY_PATH=str(other.parent))

    assert story.library.path == str(other)
    assert [namesake.path for namesake in story.namesakes] == [str(own)]


def test_of_several_modules_the_one_that_fails_is_told_of_first(venv: Venv) -> None:
    folder = venv.package("x", "from . import _B")
    build_library(folder / f"_B{SUFFIX}", init("_B"))
    build_library(folder / f"_C{SUFFIX}", "void gone();" + init("_C", "gone(); return 0;"))

    story = tell(venv, "x")

    assert story.library.module == "x._C"
    assert [(namesake.module, namesake.fails) for namesake in story.namesakes] == [("x._B", False)]


def test_of_several_modules_the_one_that_is_imported_is_told_of_first(venv: Venv) -> None:
    folder = venv.package("x", "from . import _C")
    for name in ("_A", "_C"):
        build_library(folder / f"{name}{SUFFIX}", init(name))

    story = tell(venv, "x")

    assert (story.library.module, story.library.import_chain) == ("x._C", ("x/__init__.py:1",))


def test_what_torch_compiled_is_known_by_its_name(venv: Venv, tmp_path: Path) -> None:
    torch = venv.torch()
    (venv.site / "torch" / "include").mkdir()
    (tmp_path / "fused.cpp").touch()
    folder = tmp_path / "cache" / "fused"
    fused = build_library(folder / "fused.so", init("fused"), needs=(torch,))
    flags = f"cflags = -isystem {venv.site}/torch/include"
    (folder / "build.ninja").write_text(f"{flags}\nbuild fused.o: compile {tmp_path}/fused.cpp\ndefault fused.so\n")

    story = library(venv, "fused", TORCH_EXTENSIONS_DIR=str(folder.parent))

    assert (story.path, story.failure) == (str(fused), None)
    assert needs(story, "libtorch.so").is_already_loaded


def test_a_module_for_another_python_is_told_to_be_passed_over(venv: Venv) -> None:
    build_library(venv.package("x") / "_C.cpython-38-x86_64-linux-gnu.so", init("_C"))

    assert library(venv, "_C").foreign_tag == "cpython-38-x86_64-linux-gnu"
    assert library(venv, "x._C").foreign_tag == "cpython-38-x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("libcublasLt.so.12", "is called `libcublasLt.so.12`; near names are `libcublas.so.12`"),
        ("x._C", "is called `x._C`; near names are `x._C_stable`, `x.image_stable`$"),
        ("xy", "is called `xy`; near names are `x`"),
        ("nothing.like.it", "is called `nothing.like.it`$"),
        ("", "is called ``$"),
        ("./gone.so", "`./gone.so` does not exist"),
        ("/", "`/` is not a file"),
        ("pure.inner", r"`pure.inner` is `.*pure/inner.py`, and has no compiled library"),
        ("pure", r"`pure` is `.*pure/__init__.py`, and has no compiled library"),
    ],
)
def test_an_unknown_name_is_one_error(asked: str, message: str, venv: Venv) -> None:
    build_library(venv.site / "nvidia" / "lib" / "libcublas.so.12")
    (venv.package("pure") / "inner.py").touch()
    for name in ("image_stable", "_C_stable"):
        build_library(venv.package("x") / f"{name}.so")

    with pytest.raises(UnknownLibraryError, match=message):
        tell(venv, asked)


def test_an_environment_whose_loader_cannot_be_told_is_one_error() -> None:
    facts = Facts(environment=an_environment(interpreter=Unavailable("a bare site-packages")), variables=variables())

    with pytest.raises(ProbeError, match="cannot be told: a bare site-packages"):
        find_story("torch", facts, kb.load())


# --- what it needs -----------------------------------------------------------------------------------------------


def test_every_needed_library_is_told_with_its_reason(venv: Venv) -> None:
    folder = venv.package("x")
    deep = build_library(folder / "lib" / "libdeep.so")
    own = build_library(folder / "lib" / "libown.so.1", needs=(deep,), options=("-Wl,-rpath,$ORIGIN",))
    build_library(folder / f"_C{SUFFIX}", init("_C"), needs=(own,), options=RUNPATH)

    story = library(venv, "x._C")

    taken = needs(story, "libown.so.1").taken
    assert taken is not None
    assert (taken.path, taken.found_through, taken.folder) == (str(own), "RUNPATH", f"{own.parent}/")
    assert [loaded.path for loaded in story.brought] == [str(deep)]
    assert needs(story, "libc.so.6").is_already_loaded
    assert story.runpath == "$ORIGIN/lib"


def test_files_that_lose_are_named(venv: Venv, tmp_path: Path) -> None:
    own = build_library(venv.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12")
    other = build_library(tmp_path / "other" / "libcublas.so.12")
    path = f"-Wl,--enable-new-dtags,-rpath,{own.parent}"
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(own,), options=(path,))

    alone = needs(library(venv, "x"), own.name)
    hijacked = needs(library(venv, "x", LD_LIBRARY_PATH=str(other.parent)), own.name)

    assert alone.taken is not None
    assert hijacked.taken is not None
    assert (alone.taken.found_through, alone.others) == ("RUNPATH", ())
    assert (hijacked.taken.found_through, hijacked.others) == ("LD_LIBRARY_PATH", (str(own),))


def test_what_torch_has_loaded_is_told_with_how_it_came_there(venv: Venv) -> None:
    torch = venv.torch()
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))

    story = library(venv, "x")

    found = needs(story, "libtorch.so")
    assert (story.after_torch, story.failure, found.is_already_loaded) == (True, None, True)
    assert found.taken is not None
    assert (found.taken.found_through, found.taken.needed_by) == ("RUNPATH", str(venv.site / f"torch/_C{SUFFIX}"))


def test_versions_that_are_asked_for_are_compared_with_those_there(venv: Venv, tmp_path: Path) -> None:
    script = tmp_path / "versions"
    newer, older = tmp_path / "build" / "libown.so.1", venv.site / "libown.so.1"
    script.write_text("OWN_1.9 { global: f; };\nOWN_1.10 { global: g; } OWN_1.9;\n")
    build_library(newer, 'extern "C" { void f() {} void g() {} }', options=(f"-Wl,--version-script={script}",))
    script.write_text("OWN_1.9 { global: f; };\n")
    build_library(older, 'extern "C" void f() {}', options=(f"-Wl,--version-script={script}",))
    uses = 'extern "C" { void f(); void g(); }' + init("_C", "f(); g(); return 0;")
    module = build_library(venv.package("x") / f"_C{SUFFIX}", uses, needs=(newer,), options=("-Wl,-rpath,$ORIGIN/..",))

    story = library(venv, "x")

    [own] = [version for version in story.versions if version.file == "libown.so.1"]
    assert (own.asked, own.newest_there, own.missing) == ("OWN_1.10", "OWN_1.9", ("OWN_1.10",))
    assert Path(own.provider).samefile(older)
    assert story.failure is not None
    assert story.failure.words == venv.real_words(f"import ctypes; ctypes.CDLL('{module}')")


# --- what the loader will say ------------------------------------------------------------------------------------


def test_a_missing_library_is_told_in_the_words_of_the_loader(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    elsewhere = build_library(venv.site / "y" / "libgone.so.1")
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(gone,))

    story = library(venv, "x")

    assert story.failure is not None
    assert story.failure.words == venv.real_words("import x._C")
    assert needs(story, gone.name) == NeededLibrary(
        name=gone.name, taken=None, is_already_loaded=False, others=(str(elsewhere),)
    )


def test_missing_symbols_are_told_with_who_would_have_them(venv: Venv) -> None:
    folder = venv.package("x")
    own = build_library(folder / "lib" / "libown.so")
    build_library(venv.site / "y" / "libown.so", "int f(int) { return 0; }")
    source = "int f(int); int g(char); " + init("_C", "f(1); g('a'); return 0;")
    build_library(folder / f"_C{SUFFIX}", source, needs=(own,), options=RUNPATH)

    story = library(venv, "x")

    assert story.failure is not None
    assert story.failure.words == venv.real_words("import x._C")
    assert set(story.missing_symbols) == {
        MissingSymbol(name="_Z1fi", written="f(int)", holders=(str(venv.site / "y" / "libown.so"),)),
        MissingSymbol(name="_Z1gc", written="g(char)", holders=()),
    }
    found = needs(story, "libown.so").taken
    assert found is not None
    assert found.found_through == "RUNPATH"


def test_where_torch_fails_what_needs_it_is_not_asked_for(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    torch = venv.torch(needs=(gone,))
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))

    of_torch, of_user = library(venv, "torch"), library(venv, "x")

    assert of_torch.failure is not None
    assert of_torch.failure.words == venv.real_words("import torch")
    assert of_user.unpredicted == f"`import torch` comes first, and fails: {of_torch.failure.words}"
    assert of_user.failure is None


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x7fELF" + bytes(60)])
def test_a_damaged_file_is_told_in_the_words_of_the_loader(content: bytes, venv: Venv) -> None:
    module = venv.package("x") / f"_C{SUFFIX}"
    module.write_bytes(content)

    story = library(venv, "x._C")

    assert story.failure is not None
    assert story.failure.fault is LoadFault.FILE
    assert story.failure.words == venv.real_words("import x._C")
    assert (story.needed, story.versions) == ((), ())
