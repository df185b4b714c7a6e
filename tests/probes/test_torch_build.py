"""The torch of an environment: a real one that says the same when it runs, and small ones built here."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from envdoctor.model.arch import format_arch_list
from envdoctor.model.facts import (
    Absence,
    Distribution,
    Environment,
    MetadataKind,
    SearchEntry,
    TorchBuild,
    TorchFlavour,
    Unavailable,
)
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environment import find_environment
from envdoctor.probes.torch_build import read_torch_build
from tests.builders import a_distribution, an_environment
from tests.compiler import build_library, needs_compiler

VERSION_FILES = Path(__file__).parents[2] / "fixtures" / "torch" / "version"
MODULE = "_C.cpython-310-x86_64-linux-gnu.so"

ACCESSOR = """
struct _object;
extern "C" _object* PyUnicode_FromString(const char*);
_object* THCPModule_getArchFlags(_object*, _object*) { return PyUnicode_FromString("sm_70 sm_80 compute_80"); }
"""
COMPILER_FLAGS = 'const char* flags = "-gencode;arch=compute_60,code=sm_60;-gencode;arch=compute_37,code=compute_37";'


def environment_of(*folders: Path, **changes: object) -> Environment:
    entries = tuple(SearchEntry(path=str(folder), origin="site-packages") for folder in folders)
    return an_environment(search_path=entries, **changes)


def torch_distribution(site: Path, version: str = "2.0.1", **changes: object) -> Distribution:
    return a_distribution(
        "torch", version, location=str(site), metadata_path=str(site / f"torch-{version}.dist-info"), **changes
    )


def read(site: Path, *distributions: Distribution, **changes: object) -> TorchBuild:
    torch = read_torch_build(environment_of(site, **changes), distributions)
    assert isinstance(torch, TorchBuild)
    return torch


def put_version(site: Path, text: str) -> Path:
    """A folder `torch` that holds no more than its version."""
    (site / "torch" / "lib").mkdir(parents=True)
    (site / "torch" / "__init__.py").touch()
    (site / "torch" / "version.py").write_text(text)
    return site


@dataclass(frozen=True)
class BuiltTorch:
    """A torch of small libraries that need one another as those of torch 2.x do."""

    site: Path

    @property
    def lib(self) -> Path:
        return self.site / "torch" / "lib"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> BuiltTorch:
    folder = tmp_path_factory.mktemp("torch")
    site = put_version(folder / "site-packages", (VERSION_FILES / "2.8.0+cu128.txt").read_text())
    lib = site / "torch" / "lib"
    build = partial(build_library, options=["-g0"])
    c10 = build(lib / "libc10.so")
    cpu = build(lib / "libtorch_cpu.so", needs=[c10])
    runtime = build(site / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.12")
    cuda = build(lib / "libtorch_cuda.so", COMPILER_FLAGS, needs=[runtime, cpu])
    build(lib / "libtorch_cuda_linalg.so", needs=[cuda])
    build(lib / "libcaffe2_nvrtc.so", needs=[runtime])
    python = build(
        lib / "libtorch_python.so", "#include <string>\nvoid f(const std::string&) {}" + ACCESSOR, needs=[cuda]
    )
    build(site / "torch" / MODULE, needs=[python])
    return BuiltTorch(site)


@pytest.fixture
def built(original: BuiltTorch, tmp_path: Path) -> BuiltTorch:
    return BuiltTorch(Path(shutil.copytree(original.site, tmp_path / "site-packages")))


# --- a real torch ------------------------------------------------------------------------------------------------

RUNNING = """
import json, sys, torch
maps = open("/proc/self/maps").read().split()
json.dump({
    "version": torch.__version__, "git": torch.version.git_version, "debug": torch.version.debug,
    "cuda": torch.version.cuda, "archs": torch.cuda.get_arch_list(), "abi": torch.compiled_with_cxx11_abi(),
    "root": torch.__path__[0], "loaded": sorted({path for path in maps if "/torch/" in path and ".so" in path}),
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def running() -> dict[str, object]:
    """What the torch beside the tests says when it is imported."""
    child = subprocess.run([sys.executable, "-c", RUNNING], capture_output=True, text=True, check=False)
    if child.returncode:
        pytest.skip(f"torch cannot be imported: {child.stderr.splitlines()[-1]}")
    answer: dict[str, object] = json.loads(child.stdout)
    return answer


@pytest.fixture(scope="module")
def installed() -> TorchBuild | Unavailable:
    environment = find_environment(python=sys.executable, prefix="")
    return read_torch_build(environment, find_distributions(environment))


def test_an_installed_torch_is_read_as_it_describes_itself(
    running: dict[str, object], installed: TorchBuild | Unavailable
) -> None:
    assert isinstance(installed, TorchBuild)
    read_from_files = {
        "version": installed.version,
        "git": installed.git_version,
        "debug": installed.debug,
        "cuda": installed.build_cuda_version,
        "archs": [str(arch) for arch in installed.arch_list] if isinstance(installed.arch_list, tuple) else None,
        "abi": installed.cxx11_abi,
        "root": installed.root,
    }

    assert read_from_files == {name: running[name] for name in read_from_files}


def test_the_libraries_that_it_loads_are_those_that_the_kernel_maps(
    running: dict[str, object], installed: TorchBuild | Unavailable
) -> None:
    assert isinstance(installed, TorchBuild)
    assert sorted(installed.loaded_libraries) == running["loaded"]


def test_an_installed_torch_has_its_distribution_and_no_problems(installed: TorchBuild | Unavailable) -> None:
    if isinstance(installed, Unavailable):
        pytest.skip(installed.reason)
    assert Path(installed.distribution).name.startswith("torch-")
    assert installed.installed_by in {"pip", "uv"}
    assert installed.problems == ()


# --- version.py --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "cuda", "git"),
    [
        ("1.0.0", "9.0", None),
        ("1.4.0", "10.1", "7f73f1d591afba823daa4a99a939217fb54d7688"),
        ("1.7.1", "10.2", "57bffc3a8e4fee0cce31e1ff1f662ccf7b16db57"),
        ("1.10.2+cu102", "10.2", "71f889c7d265b9636b93ede9d651c0a9c4bee191"),
        ("1.13.1+cu117", "11.7", "49444c3e546bf240bed24a101e747422d1f8a0ee"),
        ("2.1.2+cu121", "12.1", "a8e7c98cb95ff97bb30a728c6b2a1ce6bff946eb"),
        ("2.8.0+cu128", "12.8", "a1cb3cc05d46d198467bebbb6e8fba50a325d4e7"),
        ("2.14.1+cu130", "13.0", "5c4886908584029761b579af026dcfb627c84070"),
    ],
)
def test_the_version_files_of_real_cuda_wheels(tmp_path: Path, release: str, cuda: str, git: str | None) -> None:
    torch = read(put_version(tmp_path, (VERSION_FILES / f"{release}.txt").read_text()))

    assert torch.version == release
    assert torch.flavour is TorchFlavour.CUDA
    assert str(torch.build_cuda_version) == cuda
    assert torch.git_version == git
    assert torch.debug is False
    assert torch.hip_version is None


def test_the_version_file_of_a_real_cpu_wheel(tmp_path: Path) -> None:
    torch = read(put_version(tmp_path, (VERSION_FILES / "2.13.0.txt").read_text()))

    assert torch.version == "2.13.0+cpu"
    assert torch.flavour is TorchFlavour.CPU
    assert torch.build_cuda_version is None
    assert torch.arch_list == ()


# Built by hand after the layout of the builds named, which cannot be had here.
ROCM_5_2 = (
    "__version__ = '1.13.1+rocm5.2'\ndebug = False\ncuda = None\ngit_version = 'aa'\nhip = '5.2.21151-afdc89f8'\n"
)
ROCM_6_4 = (
    "from typing import Optional\n__version__ = '2.9.0+rocm6.4'\ndebug = False\ncuda: Optional[str] = None\n"
    "git_version = 'aa'\nhip: Optional[str] = '6.4.43482-0f2d60242'\nrocm: Optional[str] = '6.4.0'\n"
)
XPU = (
    "from typing import Optional\n__version__ = '2.8.0+xpu'\ndebug = False\ncuda: Optional[str] = None\n"
    "git_version = 'aa'\nhip: Optional[str] = None\nxpu: Optional[str] = '20250101'\n"
)
NVIDIA_CONTAINER = (
    "__version__ = '1.8.0a0+17f8c32'\ndebug = False\ncuda = '11.1'\ngit_version = '17f8c32'\nhip = None\n"
)
NIGHTLY = "__version__ = '2.9.0.dev20250801+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\nhip = None\n"
CONDA_FORGE = "__version__ = '2.3.1.post100'\ndebug = False\ncuda = '12.0'\ngit_version = 'aa'\nhip = None\n"
CONDA_CPU = "__version__ = '1.9.0'\ndebug = False\ncuda = None\ngit_version = 'd69c22d'\nhip = None\n"


@pytest.mark.parametrize(
    ("text", "flavour", "cuda", "hip"),
    [
        (ROCM_5_2, TorchFlavour.ROCM, "None", "5.2.21151-afdc89f8"),
        (ROCM_6_4, TorchFlavour.ROCM, "None", "6.4.43482-0f2d60242"),
        (XPU, TorchFlavour.XPU, "None", None),
        (NVIDIA_CONTAINER, TorchFlavour.CUDA, "11.1", None),
        (NIGHTLY, TorchFlavour.CUDA, "12.8", None),
        (CONDA_FORGE, TorchFlavour.CUDA, "12.0", None),
        (CONDA_CPU, TorchFlavour.CPU, "None", None),
    ],
)
def test_the_version_files_of_other_builds(
    tmp_path: Path, text: str, flavour: TorchFlavour, cuda: str, hip: str | None
) -> None:
    torch = read(put_version(tmp_path, text))

    assert (torch.flavour, str(torch.build_cuda_version), torch.hip_version) == (flavour, cuda, hip)


@pytest.mark.parametrize("text", [ROCM_6_4, XPU])
def test_builds_for_other_accelerators_have_no_cuda_architectures(tmp_path: Path, text: str) -> None:
    arch_list = read(put_version(tmp_path, text)).arch_list

    assert isinstance(arch_list, Unavailable)
    assert arch_list.absence is Absence.NOT_APPLICABLE


def test_version_files_are_not_executed(tmp_path: Path) -> None:
    sign = tmp_path / "executed"
    torch = read(put_version(tmp_path, f"open({str(sign)!r}, 'w')\n__version__ = '2.0.1+cu117'\ncuda = '11.7'\n"))

    assert torch.version == "2.0.1+cu117"
    assert not sign.exists()


def test_how_a_version_file_is_written_does_not_matter(tmp_path: Path) -> None:
    """With a byte-order mark, a dubious escape, an accent in another encoding."""
    put_version(tmp_path, "")
    content = b"\xef\xbb\xbf__version__ = '2.0.1+cu117'\ncuda = '11.7'\npattern = '\\d'\n# caf\xe9"
    (tmp_path / "torch" / "version.py").write_bytes(content)
    torch = read(tmp_path)

    assert (torch.version, str(torch.build_cuda_version)) == ("2.0.1+cu117", "11.7")
    assert not any("version.py" in problem for problem in torch.problems)


@pytest.mark.parametrize("version", ["1" * 5000, f"2.0.1+cu{'1' * 5000}"])
def test_a_version_that_is_none_tells_no_cuda(tmp_path: Path, version: str) -> None:
    site = put_version(tmp_path, f"__version__ = {version!r}")
    (site / "torch" / "lib" / "libc10_cuda.so").touch()

    torch = read(site, torch_distribution(site, "2.0.1+cu117"))

    assert (torch.version, torch.build_cuda_version) == (version, None)


@pytest.mark.parametrize("text", ["", "cuda = '11.7'\n", "__version__ = '2.0.", "\0", "(" * 10_000], ids=repr)
def test_a_damaged_version_file_is_a_problem_and_the_metadata_stand_in(tmp_path: Path, text: str) -> None:
    site = put_version(tmp_path, text)
    (site / "torch" / "lib" / "libc10_cuda.so").touch()

    torch = read(site, torch_distribution(site, "2.0.1+cu117"))

    assert torch.version == "2.0.1+cu117"
    assert torch.flavour is TorchFlavour.CUDA
    assert str(torch.build_cuda_version) == "11.7"
    assert torch.problems[0].startswith("`version.py` cannot be read: ")


# --- which torch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leftover", [None, "torch/__pycache__", "torch/hub"])
def test_without_torch_there_is_nothing_to_judge(tmp_path: Path, leftover: str | None) -> None:
    if leftover:
        (tmp_path / leftover).mkdir(parents=True)

    assert read_torch_build(environment_of(tmp_path), ()) == Unavailable(
        "torch is not installed", Absence.NOT_APPLICABLE
    )


@pytest.mark.parametrize("locked", ["site", "site/torch"])
def test_a_torch_that_this_user_cannot_read_is_not_a_missing_one(unprivileged: Path, locked: str) -> None:
    site = put_version(unprivileged / "site", "__version__ = '2.0.1+cu117'")
    (unprivileged / locked).chmod(0)

    assert read_torch_build(environment_of(site), ()) == Unavailable(
        f"torch may be in `{unprivileged / locked}`, which this user cannot read"
    )


def test_an_init_that_this_user_cannot_read_is_a_problem(unprivileged: Path) -> None:
    put_version(unprivileged, "__version__ = '2.0.1+cu117'")
    (unprivileged / "torch" / "__init__.py").chmod(0)

    assert "`torch/__init__.py` cannot be read by this user" in read(unprivileged).problems


def test_the_first_on_the_search_path_is_imported_and_the_second_named(tmp_path: Path) -> None:
    user = put_version(tmp_path / "user", CONDA_CPU)
    system = put_version(tmp_path / "system", NIGHTLY)

    torch = read_torch_build(environment_of(user, system), ())

    assert isinstance(torch, TorchBuild)
    assert torch.version == "1.9.0"
    assert torch.rivals == (str(system / "torch"),)


def test_a_folder_without_init_loses_against_a_package_that_comes_later(tmp_path: Path) -> None:
    removed = put_version(tmp_path / "removed", CONDA_CPU)
    (removed / "torch" / "__init__.py").unlink()
    whole = put_version(tmp_path / "whole", NIGHTLY)

    torch = read_torch_build(environment_of(removed, whole), ())

    assert isinstance(torch, TorchBuild)
    assert torch.root == str(whole / "torch")
    assert torch.has_init


def test_one_folder_under_two_names_is_one_torch(tmp_path: Path) -> None:
    site = put_version(tmp_path / "lib", NIGHTLY)
    (tmp_path / "lib64").symlink_to(site)

    torch = read_torch_build(environment_of(site, tmp_path / "lib64"), ())

    assert isinstance(torch, TorchBuild)
    assert torch.rivals == ()


@pytest.mark.parametrize("name", ["torch.py", "torch.abi3.so"])
def test_a_file_that_is_imported_instead_is_a_problem(tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / name).touch()
    site = put_version(tmp_path / "site-packages", NIGHTLY)

    torch = read_torch_build(environment_of(project, site), ())

    assert isinstance(torch, TorchBuild)
    assert f"`{project / name}` comes first on the search path: `import torch` finds it instead" in torch.problems


def test_an_editable_checkout_is_found_and_owned(tmp_path: Path) -> None:
    checkout = put_version(tmp_path / "pytorch", NIGHTLY)
    distribution = a_distribution(
        "torch", "2.9.0.dev20250801", location="/opt/env/site-packages", editable_root=str(checkout)
    )

    torch = read(checkout, distribution)

    assert torch.distribution == distribution.metadata_path


def test_the_import_hook_of_another_package_does_not_find_torch(tmp_path: Path) -> None:
    put_version(tmp_path, NIGHTLY)
    entry = SearchEntry(path=str(tmp_path), origin="editable mmcv")

    torch = read_torch_build(an_environment(search_path=(entry,)), ())

    assert isinstance(torch, Unavailable)


# --- architectures, ABI, libraries -------------------------------------------------------------------------------


@needs_compiler
def test_the_accessor_tells_the_architectures_and_names_the_abi(built: BuiltTorch) -> None:
    torch = read(built.site)

    assert isinstance(torch.arch_list, tuple)
    assert format_arch_list(torch.arch_list) == "sm_70 sm_80 compute_80"
    assert torch.arch_list_source.startswith("libtorch_python.so: ")
    assert torch.cxx11_abi is True


@needs_compiler
def test_older_builds_tell_the_architectures_by_their_compiler_flags(built: BuiltTorch) -> None:
    build_library(built.lib / "libtorch_python.so")

    torch = read(built.site)

    assert isinstance(torch.arch_list, tuple)
    assert format_arch_list(torch.arch_list) == "sm_60 compute_37"
    assert torch.arch_list_source == "libtorch_cuda.so: nvcc flags"


@needs_compiler
def test_the_oldest_builds_do_not_tell_the_architectures(tmp_path: Path) -> None:
    site = put_version(tmp_path, (VERSION_FILES / "1.0.0.txt").read_text())
    build_library(site / "torch" / "lib" / "libtorch_python.so")

    arch_list = read(site).arch_list

    assert arch_list == Unavailable("torch 1.0.0 has no list of architectures in its libraries")


@needs_compiler
def test_what_import_loads_is_followed_along_the_needed_libraries(built: BuiltTorch) -> None:
    torch = read(built.site)

    loaded = {Path(path).relative_to(built.site).as_posix() for path in torch.loaded_libraries}
    assert loaded == {
        f"torch/{MODULE}",
        "torch/lib/libtorch_python.so",
        "torch/lib/libtorch_cuda.so",
        "torch/lib/libtorch_cpu.so",
        "torch/lib/libc10.so",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
    }


@needs_compiler
def test_the_libraries_of_conda_forge_lie_in_the_environment(built: BuiltTorch) -> None:
    prefix = built.site.parent
    built.lib.rename(prefix / "lib")
    (prefix / "lib" / "libsqlite3.so").touch()

    torch = read(built.site, kind="conda", prefix=str(prefix))

    assert isinstance(torch.arch_list, tuple)
    assert str(prefix / "lib" / "libtorch_cuda.so") in torch.loaded_libraries
    assert str(prefix / "lib" / "libsqlite3.so") not in torch.libraries


@needs_compiler
def test_a_whole_torch_has_no_problems(built: BuiltTorch) -> None:
    distribution = torch_distribution(built.site, "2.8.0")

    torch = read(built.site, distribution)

    assert torch.problems == ()
    assert (torch.distribution, torch.installed_by) == (distribution.metadata_path, "pip")


# --- cuDNN and NCCL ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "requirement", ["nvidia-cudnn-cu11 (==8.5.0.96) ; platform_system == 'Linux'", "nvidia_cudnn_cu11==8.5"]
)
def test_the_cudnn_that_is_installed_counts_not_the_pin(tmp_path: Path, requirement: str) -> None:
    site = put_version(tmp_path, NIGHTLY)
    cudnn = a_distribution("nvidia-cudnn-cu11", "8.9.1.23")

    torch = read(site, torch_distribution(site, requires=(requirement,)), cudnn)

    assert torch.cudnn_version == "8.9.1.23"


def test_a_pinned_nccl_that_is_missing_is_unavailable(tmp_path: Path) -> None:
    site = put_version(tmp_path, NIGHTLY)

    torch = read(site, torch_distribution(site, requires=("nvidia-nccl-cu12==2.21.5",)))

    assert torch.nccl_version == Unavailable("`nvidia-nccl-cu12`, which torch asks for, is not installed")


def test_the_build_string_of_conda_tells_cudnn(tmp_path: Path) -> None:
    site = put_version(tmp_path, CONDA_FORGE)

    torch = read(site, torch_distribution(site, installer="conda", build="py3.8_cuda11.1_cudnn8.0.5_0"))

    assert (torch.cudnn_version, torch.installed_by) == ("8.0.5", "conda")


def test_the_package_of_conda_forge_tells_cudnn(tmp_path: Path) -> None:
    site = put_version(tmp_path, CONDA_FORGE)
    package = a_distribution("cudnn", "8.9.7.29", metadata_kind=MetadataKind.CONDA_META, installer="conda")
    torch = torch_distribution(site, installer="conda", build="cuda120_py311h25b6552_100")

    assert read(site, torch, package).cudnn_version == "8.9.7.29"
    assert isinstance(read(site, torch_distribution(site), package).cudnn_version, Unavailable)


def test_the_file_name_of_a_bundled_copy_tells_cudnn(tmp_path: Path) -> None:
    site = put_version(tmp_path, NIGHTLY)
    (site / "torch" / "lib" / "libcudnn-1a2b3c4d.so.8.5.0").touch()

    assert read(site).cudnn_version == "8.5.0"


# --- problems ----------------------------------------------------------------------------------------------------


def remove(name: str, built: BuiltTorch) -> None:
    (built.site / "torch" / name).unlink()


def put_pointer(built: BuiltTorch) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1015000000\n"
    (built.lib / "libtorch_cuda.so").write_text(pointer)


def cut_off(built: BuiltTorch) -> None:
    library = built.lib / "libtorch_cuda.so"
    library.write_bytes(library.read_bytes()[:5000])


def rename_module(built: BuiltTorch) -> None:
    (built.site / "torch" / MODULE).rename(built.site / "torch" / "_C.cpython-38-x86_64-linux-gnu.so")


@needs_compiler
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (partial(remove, "version.py"), "`version.py` cannot be read: No such file or directory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_torch_that_is_not_whole_says_what_is_wrong(
    built: BuiltTorch, spoil: Callable[[BuiltTorch], None], problem: str
) -> None:
    spoil(built)

    assert problem in read(built.site, torch_distribution(built.site, "2.8.0")).problems


@needs_compiler
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (partial(remove, "lib/libtorch_cuda.so"), "`libtorch_cuda.so` is missing from a build with CUDA"),
        (put_pointer, "`libtorch_cuda.so`: a pointer of Git LFS instead of the library"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_libraries_is_told_apart(
    built: BuiltTorch, spoil: Callable[[BuiltTorch], None], problem: str
) -> None:
    spoil(built)
    torch = read(built.site, torch_distribution(built.site, "2.8.0"))

    assert (torch.problems, torch.library_problems) == ((), (problem,))


def test_a_folder_without_init_is_found_and_said_to_have_none(tmp_path: Path) -> None:
    site = put_version(tmp_path, NIGHTLY)
    (site / "torch" / "__init__.py").unlink()

    assert not read(site).has_init


@needs_compiler
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (partial(remove, MODULE), "there is none"),
        (rename_module, "there is only `_C.cpython-38-x86_64-linux-gnu.so`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_extension_module_that_the_interpreter_does_not_find_is_missing(
    built: BuiltTorch, spoil: Callable[[BuiltTorch], None], reason: str
) -> None:
    whole = read(built.site)
    spoil(built)

    assert whole.missing_extension == ""
    assert read(built.site).missing_extension == reason


@needs_compiler
def test_a_library_that_is_cut_off_is_a_problem_and_not_the_end(built: BuiltTorch) -> None:
    cut_off(built)

    torch = read(built.site)

    assert [problem for problem in torch.library_problems if problem.startswith("`libtorch_cuda.so`: ")]
    assert isinstance(torch.arch_list, tuple)


@needs_compiler
def test_when_every_source_is_damaged_the_reasons_are_told(built: BuiltTorch) -> None:
    for name in ("libtorch_python.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so"):
        (built.lib / name).write_bytes(b"\x7fELF")

    torch = read(built.site)

    assert isinstance(torch.arch_list, Unavailable)
    assert torch.arch_list.reason.startswith("`libtorch_python.so`: ")
    assert isinstance(torch.cxx11_abi, Unavailable)


def test_a_cuda_version_that_is_none_is_passed_over(tmp_path: Path) -> None:
    torch = read(put_version(tmp_path, "__version__ = 'my build'\ncuda = 'twelve'\n"), torch_distribution(tmp_path))

    assert (torch.version, torch.flavour, torch.build_cuda_version) == ("my build", TorchFlavour.CUDA, None)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (
            lambda site: torch_distribution(site, "2.9.1"),
            "`version.py` says 2.9.0.dev20250801+cu128, `torch-2.9.1.dist-info` says 2.9.1",
        ),
        (
            lambda site: torch_distribution(site, "2.9.0+cu126"),
            "`version.py` says 2.9.0.dev20250801+cu128, `torch-2.9.0+cu126.dist-info` says 2.9.0+cu126",
        ),
    ],
)
def test_metadata_that_tell_of_another_torch_are_a_problem(
    tmp_path: Path, make: Callable[[Path], Distribution], problem: str
) -> None:
    site = put_version(tmp_path, NIGHTLY)

    assert problem in read(site, make(site)).problems


def test_the_commit_that_a_build_names_is_no_other_torch(tmp_path: Path) -> None:
    """python3-torch of Debian 12."""
    site = put_version(tmp_path, "__version__ = '1.13.0a0'\ndebug = False\ncuda = None\ngit_version = 'Unknown'\n")

    problems = read(site, torch_distribution(site, "1.13.0a0+gitunknown")).problems

    assert not [problem for problem in problems if "says" in problem]


def test_a_file_on_pythonpath_is_told_with_the_other_modules_there(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "torch.py").touch()
    site = put_version(tmp_path / "site-packages", NIGHTLY)
    entries = (
        SearchEntry(path=str(project), origin="PYTHONPATH"),
        SearchEntry(path=str(site), origin="site-packages"),
    )

    torch = read_torch_build(an_environment(search_path=entries), ())

    assert isinstance(torch, TorchBuild)
    assert not any("torch.py" in problem for problem in torch.problems)


def test_two_records_of_one_name_are_not_a_problem_of_torch_alone(tmp_path: Path) -> None:
    site = put_version(tmp_path, NIGHTLY)
    torch = read(site, torch_distribution(site, "2.9.0"), torch_distribution(site, "2.8.0"))

    assert not any("several distributions" in problem for problem in torch.problems)


def test_two_distributions_that_claim_one_folder_are_a_problem(tmp_path: Path) -> None:
    site = put_version(tmp_path / "lib", CONDA_CPU)
    conda = Distribution(
        name="pytorch",
        version="1.9.0",
        metadata_kind=MetadataKind.CONDA_META,
        metadata_path=str(tmp_path / "conda-meta" / "pytorch-1.9.0-py3.8_cpu_0.json"),
        location=str(tmp_path),
        installer="conda",
        build="py3.8_cpu_0",
    )

    torch = read(site, conda, torch_distribution(site, "1.9.0"), prefix=str(tmp_path))

    claim = "several distributions claim the folder: `torch-1.9.0.dist-info`, `pytorch-1.9.0-py3.8_cpu_0.json`"
    assert claim in torch.problems
    assert torch.installed_by == "pip"


def test_a_search_path_that_leads_in_a_circle_is_passed_over(tmp_path: Path) -> None:
    site = put_version(tmp_path / "site-packages", NIGHTLY)
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    torch = read_torch_build(environment_of(circle, site), ())

    assert isinstance(torch, TorchBuild)
