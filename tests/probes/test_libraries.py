"""Finding libraries in the folders of a search path, whose they are, and what is wrong with them."""

import os
import shutil
from pathlib import Path

import pytest

from envdoctor.model.facts import (
    Absence,
    DeviceCode,
    Distribution,
    LibraryRole,
    MetadataKind,
    SearchEntry,
    TorchBuild,
    Unavailable,
)
from envdoctor.probes.libraries import find_device_code
from envdoctor.probes.library_files import find_libraries
from tests.binary.files import FIXTURES, content_of
from tests.builders import a_distribution, a_torch, an_environment

LIBRARY = FIXTURES / "rdc" / "librdc.so"
OTHER_LIBRARY = FIXTURES / "rdc" / "libnordc.so"
HOST_LIBRARY = content_of("rdc/a.o").replace(b"__nv_relfatbin", b"__no_relfatbin")
NO_TORCH = Unavailable("torch is not installed", Absence.NOT_APPLICABLE)


def put(target: Path, source: Path = LIBRARY) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def package(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()
    return folder


def find(
    *roots: Path | SearchEntry,
    distributions: tuple[Distribution, ...] = (),
    torch: TorchBuild | Unavailable = NO_TORCH,
    deep: bool = False,
    **environment: object,
) -> tuple[DeviceCode, ...]:
    entries = (
        SearchEntry(path=str(root), origin="site-packages") if isinstance(root, Path) else root for root in roots
    )
    examined = an_environment(search_path=tuple(entries), **environment)
    return find_device_code(find_libraries(examined, torch), distributions, torch, deep=deep)


def names(found: tuple[DeviceCode, ...]) -> list[str]:
    return sorted(Path(code.library).name for code in found)


# --- which libraries are found -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "_C.so",
        "_C.cpython-310-x86_64-linux-gnu.so",
        "_C.abi3.so",
        "libx.so.1",
        "libx.so.12.4.1",
        "libfaiss-6b43fd57.so.1.2",
    ],
)
def test_libraries_are_known_by_their_names(name: str, tmp_path: Path) -> None:
    put(package(tmp_path / "x") / name)

    assert names(find(tmp_path)) == [name]


@pytest.mark.parametrize(
    "name", ["_C.so.py", "_C.pyd", "x.dll", "x.sox", "_C.cpython-38-x86_64-linux-gnu.so", "~x.so.orig"]
)
def test_files_that_this_interpreter_does_not_load_are_passed_over(name: str, tmp_path: Path) -> None:
    put(package(tmp_path / "x") / name)

    assert find(tmp_path) == ()


def test_an_interpreter_on_windows_loads_other_names(tmp_path: Path) -> None:
    for name in ("_C.so", "_C.cp310-win_amd64.pyd", "x.dll"):
        put(package(tmp_path / "x") / name, LIBRARY if name.startswith("_C") else OTHER_LIBRARY)

    found = find(tmp_path, platform="win-amd64", extension_suffixes=(".cp310-win_amd64.pyd", ".pyd"))

    assert names(found) == ["_C.cp310-win_amd64.pyd", "x.dll"]


def test_libraries_without_device_code_are_left_out(tmp_path: Path) -> None:
    (package(tmp_path / "x") / "_C.so").write_bytes(HOST_LIBRARY)

    assert find(tmp_path) == ()


def test_libraries_that_cannot_be_read_are_not_lost(tmp_path: Path) -> None:
    (package(tmp_path / "x") / "_C.so").write_bytes(b"")

    [code] = find(tmp_path)

    assert code.unreadable


def test_links_to_one_file_are_one_library(tmp_path: Path) -> None:
    path = put(package(tmp_path / "x") / "libx.so.1")
    path.with_name("libx.so").symlink_to("libx.so.1")
    os.link(path, path.with_name("other.so"))

    assert len(find(tmp_path)) == 1


def test_equal_copies_within_a_distribution_are_one_library(tmp_path: Path) -> None:
    for name in ("libx.so", "libx.so.1"):
        put(package(tmp_path / "x") / name)

    assert names(find(tmp_path)) == ["libx.so"]


def test_equal_libraries_of_different_names_are_none_of_them_copies(tmp_path: Path) -> None:
    """bitsandbytes asks for one by the CUDA version in its name, and two versions may have the same kernels."""
    for name in ("libx_cuda121.so", "libx_cuda122.so"):
        put(package(tmp_path / "x") / name)

    assert names(find(tmp_path)) == ["libx_cuda121.so", "libx_cuda122.so"]


def test_a_link_to_a_folder_above_itself_does_not_hang(tmp_path: Path) -> None:
    folder = package(tmp_path / "x")
    put(folder / "_C.so")
    (folder / "loop").symlink_to(tmp_path)
    (folder / "other").symlink_to(folder)

    assert names(find(tmp_path)) == ["_C.so"]


def test_a_folder_that_this_user_cannot_list_is_told(unprivileged: Path) -> None:
    put(unprivileged / "site-packages" / "x" / "a.so")
    (unprivileged / "site-packages" / "nvidia").mkdir(mode=0)

    [code, locked] = find(unprivileged / "site-packages")

    assert names((code,)) == ["a.so"]
    assert (Path(locked.library).name, locked.unreadable) == ("nvidia", "Permission denied")


def test_a_loop_of_links_hides_nothing_else(tmp_path: Path) -> None:
    put(tmp_path / "x" / "a.so")
    (tmp_path / "x" / "loop").symlink_to("loop")
    (tmp_path / "~loop").symlink_to("~loop")

    assert names(find(tmp_path)) == ["a.so"]


def test_a_link_into_a_locked_folder_hides_nothing_else(unprivileged: Path) -> None:
    put(unprivileged / "site" / "x" / "a.so")
    (unprivileged / "locked" / "inner").mkdir(parents=True)
    (unprivileged / "locked").chmod(0)
    (unprivileged / "site" / "x" / "link").symlink_to(unprivileged / "locked" / "inner")

    assert names(find(unprivileged / "site")) == ["a.so"]


def test_a_link_to_a_folder_above_the_search_path_is_not_entered(tmp_path: Path) -> None:
    put(tmp_path / "site" / "x" / "a.so")
    put(tmp_path / "other" / "b.so", OTHER_LIBRARY)
    (tmp_path / "site" / "up").symlink_to("..")
    (tmp_path / "site" / "root").symlink_to("/")

    assert names(find(tmp_path / "site")) == ["a.so"]


def test_a_linked_package_is_entered(tmp_path: Path) -> None:
    put(package(tmp_path / "store" / "x") / "_C.so")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "x").symlink_to(tmp_path / "store" / "x")

    assert names(find(tmp_path / "site")) == ["_C.so"]


@pytest.mark.parametrize("folder", ["~orch/lib", "x-1.0.dist-info", "x.egg-info", "x/__pycache__", "x/.hidden"])
def test_leavings_and_metadata_are_not_entered(folder: str, tmp_path: Path) -> None:
    put(tmp_path / folder / "_C.so")

    assert find(tmp_path) == ()


def test_a_package_hides_its_namesake_later_on_the_search_path(tmp_path: Path) -> None:
    put(package(tmp_path / "user" / "x") / "_C.so")
    put(package(tmp_path / "system" / "x") / "_C.so", OTHER_LIBRARY)
    put(package(tmp_path / "system" / "y") / "_C.so", OTHER_LIBRARY)

    found = find(tmp_path / "user", tmp_path / "system")

    assert [code.library for code in found] == [str(tmp_path / "user/x/_C.so"), str(tmp_path / "system/y/_C.so")]


def test_folders_of_a_namespace_do_not_hide_each_other(tmp_path: Path) -> None:
    put(tmp_path / "user" / "google" / "a" / "_a.so")
    put(tmp_path / "system" / "google" / "b" / "_b.so", OTHER_LIBRARY)

    assert names(find(tmp_path / "user", tmp_path / "system")) == ["_a.so", "_b.so"]


@pytest.mark.parametrize(("marker", "expected"), [("x.h", []), ("__init__.py", ["_C.so"])])
def test_a_folder_of_headers_is_not_entered(marker: str, expected: list[str], tmp_path: Path) -> None:
    put(package(tmp_path / "x") / "include" / "_C.so")
    (tmp_path / "x" / "include" / marker).touch()

    assert names(find(tmp_path)) == expected


def test_the_standard_library_is_not_searched(tmp_path: Path) -> None:
    put(tmp_path / "lib-dynload" / "x.so")

    assert find(SearchEntry(path=str(tmp_path / "lib-dynload"), origin="standard library")) == ()


def test_a_folder_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert find(tmp_path / "nowhere") == ()


# --- source roots ------------------------------------------------------------------------------------------------


def source(folder: Path, origin: str = "project.pth") -> SearchEntry:
    return SearchEntry(path=str(folder), origin=origin)


@pytest.mark.parametrize("place", ["_C.so", "x/_C.so", "x/ops/_C.so", "lib/pointops/_C.so", "x/ops/deep/er/_C.so"])
def test_modules_of_a_source_root_are_found(place: str, tmp_path: Path) -> None:
    for folder in ("x", "x/ops", "x/ops/deep", "x/ops/deep/er"):
        package(tmp_path / folder)
    put(tmp_path / place)
    (tmp_path / "lib" / "pointops").mkdir(parents=True, exist_ok=True)
    (tmp_path / "lib" / "pointops" / "setup.py").touch()

    assert names(find(source(tmp_path))) == ["_C.so"]


@pytest.mark.parametrize(
    "place", ["build/x/_C.so", "data/train/n01440764/_C.so", "my-runs/_C.so", ".git/_C.so", "fixtures/binaries/t1.so"]
)
def test_data_and_build_folders_of_a_source_root_are_not_entered(place: str, tmp_path: Path) -> None:
    put(tmp_path / place)

    assert find(source(tmp_path)) == ()


def test_a_folder_of_installed_distributions_is_none_of_sources(tmp_path: Path) -> None:
    (tmp_path / "x-1.0.dist-info").mkdir()
    put(tmp_path / "x.libs" / "libx.so.1")

    assert names(find(source(tmp_path, "PYTHONPATH"))) == ["libx.so.1"]


def test_an_egg_is_no_source_root(tmp_path: Path) -> None:
    egg = tmp_path / "x-1.0-py3.10-linux-x86_64.egg"
    put(egg / "x.libs" / "libx.so.1")

    assert names(find(source(egg, "easy-install.pth"))) == ["libx.so.1"]


def test_of_an_editable_install_only_its_own_package_is_found(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        put(package(tmp_path / name) / f"_{name}.so")

    assert names(find(source(tmp_path, "editable mine"))) == ["_mine.so"]


# --- whose they are ----------------------------------------------------------------------------------------------


def installed(site: Path, name: str, *files: str) -> Distribution:
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
    return a_distribution(name, "1.0", metadata_path=str(folder), location=str(site))


def test_a_package_belongs_to_the_distribution_of_its_name(tmp_path: Path) -> None:
    put(package(tmp_path / "xformers") / "_C.so")

    [code] = find(tmp_path, distributions=(installed(tmp_path, "other"), installed(tmp_path, "xformers")))

    assert (code.distribution, code.role) == ("xformers", LibraryRole.EXTENSION)


@pytest.mark.parametrize("place", ["spconv/core_cc.so", "flash_attn_2_cuda.so", "faiss_gpu.libs/libfaiss-6b43fd57.so"])
def test_a_library_belongs_to_the_distribution_that_lists_it(place: str, tmp_path: Path) -> None:
    put(tmp_path / place)

    [code] = find(
        tmp_path, distributions=(installed(tmp_path, "other", f"x/{place}"), installed(tmp_path, "the-one", place))
    )

    assert code.distribution == "the-one"


def test_libraries_that_setuptools_installed_belong_to_their_egg_info(tmp_path: Path) -> None:
    put(tmp_path / "pointops.so")
    egg_info = tmp_path / "point_ops-1.0.egg-info"
    egg_info.mkdir()
    (egg_info / "installed-files.txt").write_text("../pointops.so\n../pointops/__init__.py\n")
    distribution = a_distribution(
        "point-ops", "1.0", metadata_kind=MetadataKind.EGG_INFO, metadata_path=str(egg_info), location=str(tmp_path)
    )

    assert [code.distribution for code in find(tmp_path, distributions=(distribution,))] == ["point-ops"]


def test_libraries_below_an_editable_root_belong_to_that_distribution(tmp_path: Path) -> None:
    put(package(tmp_path / "mmcv") / "_ext.so")
    distribution = a_distribution("mmcv-full", "1.7.1", editable_root=str(tmp_path), location="/elsewhere")

    assert [code.distribution for code in find(source(tmp_path), distributions=(distribution,))] == ["mmcv-full"]


def test_an_environment_inside_an_editable_project_is_not_the_projects_own(tmp_path: Path) -> None:
    site_packages = tmp_path / ".venv" / "lib" / "python3.10" / "site-packages"
    put(package(site_packages / "xformers") / "_C.so")
    project = a_distribution("project", "1.0", editable_root=str(tmp_path), location=str(site_packages))

    [code] = find(site_packages, distributions=(project, installed(site_packages, "xformers")))

    assert code.distribution == "xformers"


def test_a_distribution_that_lost_its_list_claims_nothing(tmp_path: Path) -> None:
    put(tmp_path / "stray.so")
    distribution = installed(tmp_path, "other", "stray.so")
    Path(distribution.metadata_path, "RECORD").unlink()

    assert [code.distribution for code in find(tmp_path, distributions=(distribution,))] == [""]


def test_a_library_that_nobody_lists_has_no_owner(tmp_path: Path) -> None:
    put(tmp_path / "stray.so")

    assert [code.distribution for code in find(tmp_path, distributions=(installed(tmp_path, "other"),))] == [""]


@pytest.mark.parametrize(
    "name", ["libcudnn_ops_infer.so.8", "libcublasLt.so.12", "libnvjpeg.36e11081.so.13", "libcudart-80664282.so.10.2"]
)
def test_nvidias_libraries_are_read_when_asked_for_wherever_they_lie(name: str, tmp_path: Path) -> None:
    put(tmp_path / "x.libs" / name)

    assert [code.role for code in find(tmp_path, deep=True)] == [LibraryRole.NVIDIA]
    assert find(tmp_path) == ()


# --- torch -------------------------------------------------------------------------------------------------------


def test_torchs_libraries_come_first_and_say_whether_they_are_always_loaded(tmp_path: Path) -> None:
    always = put(package(tmp_path / "torch") / "lib" / "libtorch_cuda.so")
    lazily = put(tmp_path / "torch" / "lib" / "libtorch_cuda_linalg.so", OTHER_LIBRARY)
    put(package(tmp_path / "apex") / "_C.so", FIXTURES / "t1.so")
    torch = a_torch(root=str(tmp_path / "torch"), libraries=(str(always), str(lazily)), loaded_libraries=(str(always),))

    found = find(tmp_path, torch=torch)

    assert [(Path(code.library).name, code.role, code.always_loaded) for code in found] == [
        ("libtorch_cuda.so", LibraryRole.TORCH, True),
        ("libtorch_cuda_linalg.so", LibraryRole.TORCH, False),
        ("_C.so", LibraryRole.EXTENSION, False),
    ]


def test_libraries_of_torch_outside_the_search_path_are_read(tmp_path: Path) -> None:
    library = put(tmp_path / "lib" / "libtorch_cuda.so")
    torch = a_torch(libraries=(str(library),), loaded_libraries=(str(library),))

    [code] = find(tmp_path / "site-packages", torch=torch)

    assert (code.role, code.always_loaded) == (LibraryRole.TORCH, True)


def test_a_library_that_torch_loads_but_that_is_gone_is_not_lost(tmp_path: Path) -> None:
    gone = str(tmp_path / "torch" / "lib" / "libtorch_cuda.so")

    [code] = find(tmp_path, torch=a_torch(libraries=(gone,), loaded_libraries=(gone,)))

    assert code.unreadable == "No such file or directory"


def test_libraries_that_are_not_in_memory_are_read_as_well(tmp_path: Path) -> None:
    for number in range(8):
        copy = put(package(tmp_path) / f"_{number}.so")
        copy.write_bytes(copy.read_bytes() + bytes(number))  # no two alike
    known = find(tmp_path)
    for library in tmp_path.rglob("*.so"):
        with library.open("rb+") as file:
            os.fsync(file)  # only what is on the disk is dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    assert len(known) == 8
    assert find(tmp_path) == known
