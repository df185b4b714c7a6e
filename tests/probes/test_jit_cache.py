"""The extensions that torch compiled at run time, in caches as torch lays them out."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.model.arch import format_arch_list
from envdoctor.model.facts import Absence, JitExtension, LibraryRole, TorchBuild, Unavailable, Variable
from envdoctor.probes.jit_cache import find_jit_extensions, find_jit_libraries, read_jit_device_code
from tests.builders import NO_TORCH, a_torch, an_environment

FIXTURES = Path(__file__).parents[2] / "fixtures"

# Built by hand after the layout of torch 1.9 (torch/utils/cpp_extension.py, `_write_ninja_file`), shortened.
BUILD_FILE = """ninja_required_version = 1.3
cxx = c++
nvcc = /usr/local/cuda/bin/nvcc

cflags = -DTORCH_EXTENSION_NAME=fused -isystem /opt/env/lib/python3.8/site-packages/torch/include -isystem \
/opt/env/lib/python3.8/site-packages/torch/include/torch/csrc/api/include -fPIC -std=c++14
post_cflags =
cuda_cflags = -DTORCH_EXTENSION_NAME=fused -isystem /opt/env/lib/python3.8/site-packages/torch/include \
-gencode=arch=compute_86,code=compute_86 -gencode=arch=compute_86,code=sm_86 --compiler-options '-fPIC'
ldflags = -shared -L/opt/env/lib/python3.8/site-packages/torch/lib -lc10 -ltorch_cuda

build fused.o: compile fused.cpp
build fused.so: link fused.o
default fused.so
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without caches."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def put(folder: Path, build_file: str = BUILD_FILE) -> Path:
    folder.mkdir(parents=True)
    (folder / "build.ninja").write_text(build_file)
    (folder / "fused.so").touch()
    return folder


def find(torch: TorchBuild, **variables: str) -> tuple[JitExtension, ...]:
    named = tuple(Variable(name=name, value=value) for name, value in variables.items())
    found = find_jit_extensions(an_environment(python_version=(3, 8, 18)), torch, named)
    return () if isinstance(found, Unavailable) else found


def test_the_build_file_tells_what_was_built_for_what(home: Path) -> None:
    folder = put(home / ".cache" / "torch_extensions" / "py38_cu111" / "fused")

    [extension] = find(a_torch("1.10.2+cu111"))

    assert extension == JitExtension(
        name="fused",
        folder=str(folder),
        cache_tag="py38_cu111",
        library=str(folder / "fused.so"),
        gencode=extension.gencode,
        torch_include="/opt/env/lib/python3.8/site-packages/torch/include",
        lock_age_seconds=None,
    )
    assert format_arch_list(extension.gencode) == "compute_86 sm_86"


@pytest.mark.parametrize(
    ("release", "place"),
    [
        ("1.5.1+cu101", "tmp/torch_extensions/fused"),
        ("1.6.0+cu101", ".cache/torch_extensions/fused"),
        ("1.9.1+cu111", ".cache/torch_extensions/fused"),
        ("1.10.0+cu113", ".cache/torch_extensions/py38_cu113/fused"),
        ("2.1.2+cpu", ".cache/torch_extensions/py38_cpu/fused"),
        ("2.14.1+cu130", ".cache/torch_extensions/py38t_cu130/fused"),
        ("my build", ".cache/torch_extensions/py38_cpu/fused"),
        ("2.1.2+cu121", ".cache/torch_extensions/py38_cu121/nncf/quantized/2.1.2"),
    ],
)
def test_each_torch_has_its_place(home: Path, release: str, place: str) -> None:
    put(home / place)

    assert [extension.folder for extension in find(a_torch(release))] == [str(home / place)]


@pytest.mark.parametrize(
    ("release", "place"),
    [
        ("2.1.2+cu121", "py38_cu118/fused"),
        ("2.1.2+cu121", "py310_cu121/fused"),
        ("2.1.2+cu121", "fused"),
        ("1.5.1+cu101", "fused"),
    ],
)
def test_caches_of_other_environments_are_not_its_business(home: Path, release: str, place: str) -> None:
    put(home / ".cache" / "torch_extensions" / place)

    assert find(a_torch(release)) == ()


def test_the_variable_replaces_the_place_and_the_tag(home: Path) -> None:
    put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")
    folder = put(home / "mine" / "fused")

    [extension] = find(a_torch("2.1.2+cu121"), TORCH_EXTENSIONS_DIR=str(home / "mine"))

    assert (extension.folder, extension.cache_tag) == (str(folder), "")


def test_the_cache_folder_of_the_user_is_respected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "scratch"))
    put(home / "scratch" / "torch_extensions" / "py38_cu121" / "fused")

    assert len(find(a_torch("2.1.2+cu121"))) == 1


def test_a_lock_that_was_left_over_has_its_age(home: Path) -> None:
    folder = put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")
    (folder / "lock").touch()
    os.utime(folder / "lock", (0, time.time() - 3600))

    [extension] = find(a_torch("2.1.2+cu121"))

    assert extension.lock_age_seconds == pytest.approx(3600, abs=60)


@pytest.mark.parametrize(("release", "is_lock"), [("2.13.0+cu130", True), ("2.14.1+cu130", False)])
def test_the_file_that_newer_torches_leave_locks_nobody_out(home: Path, release: str, *, is_lock: bool) -> None:
    (put(home / ".cache" / "torch_extensions" / "py38_cu130" / "fused") / "lock").touch()

    [extension] = find(a_torch(release))

    assert (extension.lock_age_seconds is not None) is is_lock


def test_a_build_that_never_ended_has_no_library(home: Path) -> None:
    folder = put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")
    (folder / "fused.so").unlink()

    [extension] = find(a_torch("2.1.2+cu121"))

    assert extension.library == ""
    assert list(read_jit_device_code((extension,), deep=False)) == []


def test_flags_of_other_forms_are_understood(home: Path) -> None:
    flags = "-gencode arch=compute_75,code=[sm_75,compute_75] -gencode=arch=compute_90a,code=sm_90a -gencode=x"
    put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused", f"cuda_cflags = {flags}\n")

    [extension] = find(a_torch("2.1.2+cu121"))

    assert format_arch_list(extension.gencode) == "sm_75 compute_75 sm_90a"


def test_a_library_without_a_build_file_is_an_extension_of_unknown_origin(home: Path) -> None:
    folder = put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")
    (folder / "build.ninja").unlink()

    [extension] = find(a_torch("2.1.2+cu121"))

    assert (extension.library, extension.gencode, extension.torch_include) == (str(folder / "fused.so"), (), "")


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0\xff" * 100,
        b"default ../../x.so\n",
        b"default a\0b\n",
        pytest.param(b"-gencode=arch=a" * 100_000, id="flags without blanks"),
        pytest.param(b"-I" * 700_000, id="folders without blanks"),
    ],
)
def test_a_damaged_build_file_tells_nothing(home: Path, damage: bytes) -> None:
    folder = put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")
    (folder / "build.ninja").write_bytes(damage)

    [extension] = find(a_torch("2.1.2+cu121"))

    assert (extension.gencode, extension.torch_include) == ((), "")


def test_their_device_code_is_read_in_a_role_of_its_own(home: Path) -> None:
    folder = put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")
    shutil.copy(FIXTURES / "binaries" / "rdc" / "libnordc.so", folder / "fused.so")

    [code] = read_jit_device_code(find(a_torch("2.1.2+cu121")), deep=False)

    assert (code.role, code.library, code.always_loaded) == (LibraryRole.JIT, str(folder / "fused.so"), False)
    assert code.containers


@pytest.mark.parametrize(("name", "value"), [("HOME", "~"), ("HOME", "/nowhere"), ("XDG_CACHE_HOME", "")])
def test_a_home_that_is_none_holds_no_cache(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    assert find(a_torch("2.1.2+cu121")) == ()


def test_without_torch_nothing_would_be_loaded(home: Path) -> None:
    put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused")

    assert find_jit_extensions(an_environment(), NO_TORCH, ()) == NO_TORCH


@pytest.mark.usefixtures("home")
def test_an_empty_cache_is_nothing_to_judge() -> None:
    found = find_jit_extensions(an_environment(), a_torch("2.1.2+cu121"), ())

    assert isinstance(found, Unavailable)
    assert found.absence is Absence.NOT_APPLICABLE


WRITE = """
from torch.utils import cpp_extension
cpp_extension.CUDA_HOME = "/usr/local/cuda"  # a CPU build does not look for one
folder = cpp_extension._get_build_directory("fused", verbose=False)
cpp_extension._write_ninja_file_to_build_library(
    path=folder + "/build.ninja", name="fused", sources=["a.cpp", "b.cu"], extra_cflags=[], extra_cuda_cflags=[],
    extra_sycl_cflags=[], extra_ldflags=[], extra_include_paths=[], with_cuda=True, with_sycl=False,
    is_standalone=False,
)
print(folder)
"""


def test_the_build_file_of_a_real_torch(home: Path) -> None:
    environ = os.environ | {"TORCH_CUDA_ARCH_LIST": "8.0;8.6+PTX", "HOME": str(home)}
    command = [sys.executable, "-c", WRITE]
    child = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if child.returncode:
        pytest.skip(f"torch wrote no build file: {child.stderr.splitlines()[-1]}")
    environment = an_environment(python_version=sys.version_info[:3])

    found = find_jit_extensions(environment, a_torch("2.13.0+cpu", build_cuda_version=None), ())

    assert isinstance(found, tuple)
    [extension] = found
    assert extension.folder == child.stdout.strip()
    assert format_arch_list(extension.gencode) == "sm_80 compute_86 sm_86"
    assert extension.torch_include.endswith("site-packages/torch/include")


# --- what torch imports as it is ---------------------------------------------------------------------------------


def put_built(home: Path, include: str = "torch/include") -> Path:
    """Leave what torch leaves after compiling a source that lies in a folder with a blank."""
    source = home / "my project" / "fused.cpp"
    source.parent.mkdir()
    source.touch()
    (home / "torch" / "include").mkdir(parents=True)
    escaped = str(source).replace(" ", "$ ")
    text = f"cflags = -isystem {home}/{include} -fPIC\nbuild fused.o: compile {escaped}\ndefault fused.so\n"
    return put(home / ".cache" / "torch_extensions" / "py38_cu121" / "fused", text)


def find_imported(home: Path) -> list[str]:
    torch = a_torch("2.1.2+cu121", root=str(home / "torch"))
    return list(find_jit_libraries(find(torch), torch))


def test_what_was_compiled_for_this_torch_is_imported_as_it_is(home: Path) -> None:
    folder = put_built(home)

    assert find_imported(home) == [f"{folder}/fused.so"]


def remove_source(home: Path, _: Path) -> None:
    (home / "my project" / "fused.cpp").unlink()


def change_source(home: Path, folder: Path) -> None:
    built = (folder / "fused.so").stat().st_mtime
    os.utime(home / "my project" / "fused.cpp", (built + 1, built + 1))


def leave_lock(_: Path, folder: Path) -> None:
    (folder / "lock").touch()


def remove_build_file(_: Path, folder: Path) -> None:
    (folder / "build.ninja").unlink()


def remove_library(_: Path, folder: Path) -> None:
    (folder / "fused.so").unlink()


@pytest.mark.parametrize("change", [remove_source, change_source, leave_lock, remove_build_file, remove_library])
def test_what_torch_would_compile_anew_is_not_imported(change: Callable[[Path, Path], None], home: Path) -> None:
    change(home, put_built(home))

    assert find_imported(home) == []


@pytest.mark.parametrize("there", [True, False])
def test_what_was_compiled_for_another_torch_is_compiled_anew(home: Path, *, there: bool) -> None:
    if there:
        (home / "other" / "torch" / "include").mkdir(parents=True)
    put_built(home, include="other/torch/include")

    assert find_imported(home) == []


def test_the_same_torch_may_be_named_through_a_link(home: Path) -> None:
    (home / "lib64").symlink_to(home)
    folder = put_built(home, include="lib64/torch/include")

    assert find_imported(home) == [f"{folder}/fused.so"]
