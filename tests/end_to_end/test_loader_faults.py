"""Real faults made in real environments: what is predicted of each is what the real loader says of it."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor import kb as knowledge
from envdoctor.model.facts import Unavailable
from envdoctor.probes.environment import find_environment
from tests.compiler import build_library, needs_compiler
from tests.end_to_end.real_loader import (
    TORCH,
    ask,
    ask_torch,
    build_extension,
    copy_torch,
    diagnose,
    examine,
    needs_torch,
    predicted,
    predicted_of_torch,
)
from tests.probes.pythons import find_python, make_venv, site_packages_of
from tools.verify_loader import verify

MODULE = 'extern "C" void* PyInit__C() { return nullptr; }'
OWN_VERSION = "{}.{}".format(*sys.version_info)
JIT_LINK = "undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"
NOT_FOUND = "cannot open shared object file: No such file or directory"

MakeLibrary = Callable[[Path, pytest.MonkeyPatch], Path]


# --- libraries that need no torch --------------------------------------------------------------------------------


def cut_off_at_once(package: Path, _: pytest.MonkeyPatch) -> Path:
    return cut(build_library(package / "_C.so", MODULE), 40)


def cut_off_in_its_headers(package: Path, _: pytest.MonkeyPatch) -> Path:
    return cut(build_library(package / "_C.so", MODULE), 100)


def cut_off_in_the_middle(package: Path, _: pytest.MonkeyPatch) -> Path:
    """The loader does not notice, and the process dies."""
    library = build_library(package / "_C.so", f"int table[1 << 16] = {{1}};{MODULE}")
    return cut(library, library.stat().st_size // 2)


def cut_off_behind_what_is_loaded(package: Path, _: pytest.MonkeyPatch) -> Path:
    library = build_library(package / "_C.so", f"int table[1 << 16] = {{1}};{MODULE}")
    return cut(library, library.stat().st_size - 64)


def cut(library: Path, size: int) -> Path:
    library.write_bytes(library.read_bytes()[:size])
    return library


def pointer_of_git_lfs(package: Path, _: pytest.MonkeyPatch) -> Path:
    library = package / "_C.so"
    library.write_text(
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 28143512\n"
    )
    return library


def for_another_machine(package: Path, _: pytest.MonkeyPatch) -> Path:
    library = build_library(package / "_C.so", MODULE)
    content = bytearray(library.read_bytes())
    content[18:20] = (8).to_bytes(2, "little")  # e_machine: MIPS
    library.write_bytes(content)
    return library


def without_a_library_of_its_libraries(package: Path, _: pytest.MonkeyPatch) -> Path:
    deepest = build_library(package / "lib" / "libdeepest.so.3")
    middle = build_library(package / "lib" / "libmiddle.so", needs=[deepest])
    deepest.unlink()
    return build_library(package / "_C.so", MODULE, needs=[middle], options=["-Wl,-rpath,$ORIGIN/lib"])


def beside_an_older_nvjitlink(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in https://github.com/pytorch/pytorch/issues/144244: NVIDIA's libraries yield to LD_LIBRARY_PATH."""
    site_packages = package.parent
    jit_link = a_jit_link(site_packages / "nvidia" / "nvjitlink" / "lib", 1, 4)
    sparse = build_library(
        site_packages / "nvidia" / "cusparse" / "lib" / "libcusparse.so.12",
        'extern "C" int __nvJitLinkComplete_12_4(); int solve() { return __nvJitLinkComplete_12_4(); }',
        needs=[jit_link],
        options=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../nvjitlink/lib"],
    )
    older = a_jit_link(site_packages.parent / "cuda-12.1" / "lib64", 1)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(older.parent))
    return build_library(
        package / "_C.so", MODULE, needs=[sparse], options=["-Wl,-rpath,$ORIGIN/../nvidia/cusparse/lib:$ORIGIN/lib"]
    )


def a_jit_link(folder: Path, *minors: int) -> Path:
    names = [f"__nvJitLinkComplete_12_{minor}" for minor in minors]
    source = "".join(f'extern "C" int {name}() {{ return 0; }}' for name in names)
    return build_versioned(folder / "libnvJitLink.so.12", source, "libnvJitLink.so.12 { global: __nv*; local: *; };")


def build_versioned(path: Path, source: str, versions: str) -> Path:
    path.parent.mkdir(parents=True)
    script = path.with_suffix(".map")
    script.write_text(versions)
    return build_library(path, source, options=[f"-Wl,--version-script={script}"])


def beside_the_libstdcxx_of_gcc_10(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in https://github.com/sunset1995/DirectVoxGO/issues/19; the library is a stand-in with the same versions."""
    strings = "GLIBCXX_3.4 {}; CXXABI_1.3 {};"
    strings += "".join(f"GLIBCXX_3.4.{minor} {{}};" for minor in range(1, 29))
    strings += "".join(f"CXXABI_1.3.{minor} {{}};" for minor in range(1, 13))
    older = build_versioned(package / "gcc-10" / "libstdc++.so.6", "", strings)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(older.parent))
    # Its check of the size is std::__throw_bad_array_new_length, of GLIBCXX_3.4.29.
    return build_library(
        package / "_C.so",
        f"#include <memory>\nint* go(int n) {{ return std::allocator<int>().allocate(n); }}\n{MODULE}",
    )


def built_with_a_newer_glibc(package: Path, _: pytest.MonkeyPatch) -> Path:
    """As in https://github.com/Dao-AILab/flash-attention/issues/1762."""
    newer = build_versioned(
        package / "glibc" / "libc.so.6", 'extern "C" void arrives_later() {}', "GLIBC_9.99 { global: arrives_later; };"
    )
    source = f'extern "C" void arrives_later(); void go() {{ arrives_later(); }} {MODULE}'
    return build_library(package / "_C.so", source, needs=[newer], options=["-nostdlib"])


def embedding_another_python(package: Path, _: pytest.MonkeyPatch) -> Path:
    """As in https://github.com/REDxEYE/SourceIO/issues/156."""
    return build_without(package, "libpython3.4m.so.1.0")


def build_without(package: Path, *names: str) -> Path:
    """Build an extension whose needed libraries are gone."""
    libraries = [build_library(package / "gone" / name) for name in names]
    extension = build_library(package / "_C.so", MODULE, needs=libraries)
    shutil.rmtree(package / "gone")
    return extension


def in_a_slim_image(package: Path, _: pytest.MonkeyPatch) -> Path:
    """As in https://github.com/Physical-Intelligence/openpi/pull/484, and https://github.com/gridai/gridai/issues/148.

    Their libGL.so.1 this machine may have.
    """
    known = [name for row in knowledge.load().system_libraries() for name in row.libraries]
    missing = [name for name in known if not is_here(name)]
    return build_without(package, missing[0]) if missing else pytest.skip("this system has all that others lack")


def is_here(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def of_python_3_8(package: Path, _: pytest.MonkeyPatch) -> Path:
    """An extension module of Python 3.8 whose name does not tell."""
    (package / "__init__.py").write_text("from . import math\n")
    library = package / "math.so"
    shutil.copyfile(module_of_python("3.8"), library)
    return library


def module_of_python(version: str) -> Path:
    folder = find_python(version).resolve().parents[1] / "lib" / f"python{version}"
    return next(folder.glob("lib-dynload/math.*.so"))


@needs_compiler
@pytest.mark.parametrize(
    ("make", "says", "code"),
    [
        (cut_off_at_once, "{library}: file too short", "ED312"),
        (cut_off_in_its_headers, "{library}: cannot read file data", "ED312"),
        (cut_off_in_the_middle, "Bus error", "ED312"),
        (pointer_of_git_lfs, "{library}: invalid ELF header", "ED312"),
        (for_another_machine, f"{{library}}: {NOT_FOUND}", "ED312"),
        (without_a_library_of_its_libraries, f"libdeepest.so.3: {NOT_FOUND}", "ED308"),
        (beside_an_older_nvjitlink, f"{{package}}/../nvidia/cusparse/lib/libcusparse.so.12: {JIT_LINK}", "ED306"),
        (
            beside_the_libstdcxx_of_gcc_10,
            "{package}/gcc-10/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by {library})",
            "ED306",
        ),
        (
            built_with_a_newer_glibc,
            "libc.so.6: version `GLIBC_9.99' not found (required by {library})",
            "ED305",
        ),
        (embedding_another_python, f"libpython3.4m.so.1.0: {NOT_FOUND}", "ED309"),
        (in_a_slim_image, NOT_FOUND, "ED308"),
        (of_python_3_8, "{library}: undefined symbol: _PyLong_One", "ED309"),
    ],
)
def test_a_fault_of_an_extension_is_predicted(
    make: MakeLibrary, says: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.11" if make is of_python_3_8 else OWN_VERSION)
    library = make(a_package(python), monkeypatch)
    facts = examine(python)
    [words] = ask(python, library, import_torch=False)

    assert words.endswith(says.format(library=library, package=library.parent))
    assert predicted(facts, library) == [words]
    assert diagnose(facts) == [code]


@needs_compiler
def test_what_is_cut_off_behind_the_loaded_part_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", OWN_VERSION)
    library = cut_off_behind_what_is_loaded(a_package(python), monkeypatch)
    facts = examine(python)

    assert ask(python, library, import_torch=False) == []
    assert predicted(facts, library) == []


def a_package(python: Path) -> Path:
    """A package that imports its extension."""
    package = site_packages_of(python) / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from . import _C\n")
    return package


@pytest.mark.parametrize(("built_for", "here", "tag"), [("3.8", "3.11", "cpython-38"), ("3.6", "3.8", "cpython-36m")])
def test_a_module_for_another_python_is_invisible(built_for: str, here: str, tag: str, tmp_path: Path) -> None:
    """As in https://github.com/deadsnakes/issues/issues/112."""
    python = make_venv(tmp_path / "venv", here)
    package = a_package(python)
    shutil.copy(module_of_python(built_for), package / f"_C.{tag}-x86_64-linux-gnu.so")
    done = subprocess.run([python, "-c", "import package"], capture_output=True, text=True, check=False)
    facts = examine(python)

    assert "cannot import name '_C'" in done.stderr
    assert not isinstance(facts.foreign_modules, Unavailable)
    assert [(foreign.module, foreign.tag) for foreign in facts.foreign_modules] == [
        ("package._C", f"{tag}-x86_64-linux-gnu")
    ]


# --- torch, and what needs it ------------------------------------------------------------------------------------


@pytest.fixture
def with_torch(tmp_path: Path) -> Path:
    """The interpreter of an environment with a torch that may be broken."""
    return copy_torch(TORCH, make_venv(tmp_path / "venv", OWN_VERSION))


def torch_without_a_library(torch: Path, _: pytest.MonkeyPatch) -> None:
    (torch / "lib" / "libc10.so").unlink()


def torch_with_a_damaged_library(torch: Path, _: pytest.MonkeyPatch) -> None:
    library = torch / "lib" / "libtorch_python.so"
    beginning = library.read_bytes()[: 1 << 20]
    library.unlink()  # it is the same file as that of the tests
    library.write_bytes(beginning)


def torch_beside_another_one(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in https://github.com/pytorch/pytorch/issues/80637: with RUNPATH, torch's libraries yield to others."""
    other = build_library(torch.parent / "other" / "lib" / "libc10.so", "int version;")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other.parent))


@needs_torch
@needs_compiler
@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (torch_without_a_library, "ED301"),
        (torch_with_a_damaged_library, "ED301"),
        (torch_beside_another_one, "ED306"),
    ],
)
def test_a_fault_of_torch_is_predicted(
    damage: Callable[[Path, pytest.MonkeyPatch], None], code: str, with_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(site_packages_of(with_torch) / "torch", monkeypatch)
    [words] = ask_torch(with_torch)
    facts = examine(with_torch)

    assert predicted_of_torch(facts) == [words]
    assert diagnose(facts) == [code]


@needs_torch
@needs_compiler
@pytest.mark.parametrize("name", ["libcudart.so.10.2", "libtorch_cuda_cu.so"])
def test_an_extension_for_another_cuda_is_predicted(name: str, with_torch: Path) -> None:
    """As in https://github.com/torch-points3d/torch-points3d/issues/780 and rusty1s/pytorch_scatter/issues/211."""
    library = build_without(a_package(with_torch), "libc10.so", name)
    facts = examine(with_torch)

    assert ask(with_torch, library, import_torch=True) == [f"{name}: {NOT_FOUND}"]
    assert predicted(facts, library) == [f"{name}: {NOT_FOUND}"]
    assert diagnose(facts) == ["ED304"]


@needs_torch
@needs_compiler
def test_an_extension_with_the_other_strings_is_predicted(with_torch: Path) -> None:
    """As in https://github.com/open-mmlab/mmcv/issues/2439: std::string has two ABIs."""
    library = build_library(
        a_package(with_torch) / "_C.so",
        "#include <string>\n"
        "namespace c10::detail { void torchCheckFail(const char*, const char*, unsigned, const std::string&); }\n"
        f'void go() {{ c10::detail::torchCheckFail("", "", 0, "why"); }}\n{MODULE}',
        needs=[TORCH / "lib" / "libc10.so"],
        options=["-D_GLIBCXX_USE_CXX11_ABI=0"],
    )
    words = f"{library}: undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    facts = examine(with_torch)

    assert ask(with_torch, library, import_torch=True) == [words]
    assert predicted(facts, library) == [words]
    assert diagnose(facts) == ["ED303"]


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_extension(tmp_path_factory.mktemp("extension"))


@needs_torch
@needs_compiler
def test_an_extension_loads_beside_the_torch_that_it_was_built_for(with_torch: Path, extension: Path) -> None:
    shutil.copytree(extension / "package", site_packages_of(with_torch) / "package")
    [library] = site_packages_of(with_torch).glob("package/_C*.so")
    facts = examine(with_torch)

    assert ask(with_torch, library, import_torch=True) == []
    assert predicted(facts, library) == []
    assert diagnose(facts) == []


@needs_torch
@needs_compiler
def test_every_library_is_predicted_with_and_without_torch(with_torch: Path, extension: Path) -> None:
    """Without torch in the process, nothing finds its libraries for an extension."""
    environment = find_environment(python=str(with_torch), prefix="")

    assert verify(environment, [extension / "package"], alone=False) == 0
    assert verify(environment, [extension / "package"], alone=True) == 0


LOAD = """
import sys
from torch.utils.cpp_extension import load
try:
    load("fused", [sys.argv[1]])
except ImportError as exc:
    print(exc, end="")
"""


@needs_torch
@needs_compiler
@pytest.mark.skipif(shutil.which("ninja") is None, reason="torch compiles with ninja, which is not there")
def test_what_torch_keeps_compiled_is_predicted(
    with_torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in https://github.com/pytorch/pytorch/issues/68905: torch does not compile it anew."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "torch_extensions"))
    (site_packages_of(with_torch) / "torch" / "include").mkdir()
    for name in ("setuptools", "_distutils_hack"):
        (site_packages_of(with_torch) / name).symlink_to(TORCH.parent / name)
    source = tmp_path / "fused.cpp"
    source.write_text(
        'namespace c10 { void gone(); }\nextern "C" void* PyInit_fused() { c10::gone(); return nullptr; }'
    )
    command = [str(with_torch), "-c", LOAD, str(source)]
    words = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    library = tmp_path / "torch_extensions" / "fused" / "fused.so"
    facts = examine(with_torch)

    assert words == [f"{library}: undefined symbol: _ZN3c104goneEv"] * 2
    assert predicted(facts, library) == words[:1]
    assert diagnose(facts) == ["ED314"]
