"""The emulated process of an interpreter before and after `import torch`, against processes that import it for real."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.model.facts import Absence, Environment, SearchEntry, TorchBuild, Unavailable, Variable
from envdoctor.probes.environment import find_environment
from envdoctor.probes.loader_process import Processes, start_processes
from envdoctor.probes.torch_build import read_torch_build
from tests.binary.loaders import needs_glibc
from tests.compiler import COMPILER, build_library, needs_compiler
from tests.probes.pythons import PYTHON3_VERSIONS, find_python, make_venv, site_packages_of
from tests.probes.torch_packages import INITS, import_torch, make_torch

pytestmark = [needs_compiler, needs_glibc]

OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
NO_TORCH = Unavailable("torch is not installed", Absence.NOT_APPLICABLE)

Change = Callable[[Path], dict[str, str]]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return make_venv(tmp_path / "venv", OWN_VERSION)


def examine(python: Path, variables: dict[str, str]) -> Processes | Unavailable:
    environment = find_environment(python=str(python), prefix="")
    torch = read_torch_build(environment, ())
    assert isinstance(torch, TorchBuild)
    return start_processes(environment, torch, [Variable(name=name, value=value) for name, value in variables.items()])


def start(environment: Environment) -> Processes | Unavailable:
    return start_processes(environment, NO_TORCH, ())


# --- import torch ------------------------------------------------------------------------------------------------


def healthy(_: Path) -> dict[str, str]:
    return {}


def without_a_needed_wheel(site_packages: Path) -> dict[str, str]:
    shutil.rmtree(site_packages / "nvidia" / "cublas")
    return {}


def without_another_wheel(site_packages: Path) -> dict[str, str]:
    shutil.rmtree(site_packages / "nvidia" / "cudnn")
    return {}


def without_the_extra_wheel(site_packages: Path) -> dict[str, str]:
    shutil.rmtree(site_packages / "nvidia" / "cuda_nvrtc", ignore_errors=True)
    return {}


def with_a_damaged_wheel(site_packages: Path) -> dict[str, str]:
    for library in site_packages.glob("nvidia/cudnn/lib/*"):
        library.write_bytes(b"")
    return {}


def without_its_own_library(site_packages: Path) -> dict[str, str]:
    (site_packages / "torch" / "lib" / "libtorch_python.so").unlink()
    return {}


def without_global_deps(site_packages: Path) -> dict[str, str]:
    (site_packages / "torch" / "lib" / "libtorch_global_deps.so").unlink()
    return {}


def with_another_library_first(site_packages: Path) -> dict[str, str]:
    other = build_library(site_packages.parent / "other" / "libtorch_python.so")
    module = next((site_packages / "torch").glob("_C.*"))
    build_library(module, 'extern "C" void torch_symbol(); void use() { torch_symbol(); }', needs=[other])
    return {"LD_LIBRARY_PATH": str(other.parent)}


CHANGES: list[Change] = [
    healthy,
    without_a_needed_wheel,
    without_another_wheel,
    without_the_extra_wheel,
    with_a_damaged_wheel,
    without_its_own_library,
    without_global_deps,
    with_another_library_first,
]


@pytest.mark.parametrize("finds_nvidia", [True, False])
@pytest.mark.parametrize("release", INITS)
def test_import_torch_goes_as_predicted(release: str, finds_nvidia: bool, python: Path, tmp_path: Path) -> None:
    """What every release opens, and what the loader says, whatever is wrong with the environment."""
    make_torch(python, release, finds_nvidia=finds_nvidia)
    shutil.copytree(python.parents[1], tmp_path / "whole", symlinks=True)

    for change in CHANGES:
        shutil.rmtree(python.parents[1])
        shutil.copytree(tmp_path / "whole", python.parents[1], symlinks=True)
        variables = change(site_packages_of(python))
        words, loaded = import_torch(python, variables)
        processes = examine(python, variables)

        assert isinstance(processes, Processes), change
        assert (processes.torch_failure.words if processes.torch_failure else "") == words, change
        if processes.after_torch:
            paths = (os.path.realpath(library.path) for library in processes.after_torch.loaded)
            assert sorted(path for path in paths if "/site-packages/" in path) == loaded, change


def test_torch_up_to_1_4_lends_its_symbols_to_everybody(python: Path) -> None:
    user = build_library(
        site_packages_of(python) / "user.so", 'extern "C" void torch_symbol(); void use() { torch_symbol(); }'
    )
    failures = []
    for release in ("1.4", "1.12"):
        shutil.rmtree(site_packages_of(python) / "torch", ignore_errors=True)
        make_torch(python, release, finds_nvidia=True)
        processes = examine(python, {})
        assert isinstance(processes, Processes)
        assert processes.after_torch
        failures.append(processes.after_torch.open(str(user)))

    old, newer = failures
    assert old is None
    assert newer
    assert newer.name == "torch_symbol"


def test_torch_brings_numpy_and_its_fuser(python: Path) -> None:
    """`libnvfuser_codegen.so` of 2.0 and 2.1, and what numpy needs; neither can keep torch from being imported."""
    torch = make_torch(python, "2.0", finds_nvidia=True)
    suffix = next(torch.glob("_C.*")).name.removeprefix("_C")
    numpy = site_packages_of(python) / "numpy" / "core"
    libraries = [
        build_library(torch / "lib" / "libnvfuser_codegen.so"),
        build_library(numpy / f"_multiarray_umath{suffix}"),
    ]
    (numpy.parent / "__init__.py").touch()

    processes = examine(python, {})
    assert isinstance(processes, Processes)
    assert processes.after_torch
    assert {str(library) for library in libraries} <= {library.path for library in processes.after_torch.loaded}

    for library in libraries:
        library.write_bytes(library.read_bytes()[:4096])
    assert isinstance(processes := examine(python, {}), Processes)
    assert processes.after_torch
    assert processes.torch_failure is None


def test_without_ctypes_there_is_no_torch(python: Path, tmp_path: Path) -> None:
    """As when the system's libffi was replaced under a Python that was built with another one."""
    make_torch(python, "2.14", finds_nvidia=True)
    environment = find_environment(python=str(python), prefix="")
    lost = build_library(tmp_path / "libffi.so.6")
    module = build_library(tmp_path / "lib-dynload" / f"_ctypes{environment.extension_suffixes[0]}", needs=[lost])
    lost.unlink()
    torch = read_torch_build(environment, ())
    first = SearchEntry(path=str(module.parent), origin="standard library")
    environment = replace(environment, search_path=(first, *environment.search_path))

    processes = start_processes(environment, torch, ())

    assert isinstance(processes, Processes)
    assert processes.torch_failure
    assert processes.torch_failure.words.startswith("libffi.so.6: cannot open shared object file")


def test_a_torch_for_another_python_is_not_imported(python: Path) -> None:
    torch = make_torch(python, "2.14", finds_nvidia=True)
    module = next(torch.glob("_C.*"))
    module.rename(torch / "_C.cpython-27-other.so")

    processes = examine(python, {})

    assert isinstance(processes, Processes)
    assert processes.after_torch is None
    assert processes.torch_failure is None


def test_a_torch_that_opens_libraries_in_another_way_is_said(python: Path) -> None:
    """As https://github.com/ROCm/TheRock builds it."""
    torch = make_torch(python, "2.14", finds_nvidia=True)
    (torch / "_rocm_init.py").touch()

    refused = examine(python, {})

    assert isinstance(refused, Unavailable)
    assert "_rocm_init.py" in refused.reason


def test_a_torch_that_cannot_be_read_is_said(python: Path) -> None:
    torch = make_torch(python, "2.14", finds_nvidia=True)
    (torch / "__init__.py").write_text("def _load_global_deps():\n    this is not Python (\n")

    assert isinstance(examine(python, {}), Unavailable)


# --- the interpreter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PYTHON3_VERSIONS)
def test_the_extension_modules_of_every_python_load(version: str) -> None:
    python = find_python(version)
    processes = start(find_environment(python=str(python), prefix=""))
    assert isinstance(processes, Processes)

    modules = sorted(python.parents[1].glob(f"lib/python{version}/lib-dynload/*.so"))

    assert {module.name: processes.alone.copy().open(str(module)) for module in modules} == {
        module.name: None for module in modules
    }


def test_the_variables_of_the_loader_are_split_as_it_does(python: Path) -> None:
    environment = find_environment(python=str(python), prefix="")
    variables = {"LD_LIBRARY_PATH": "/a:;/b/", "LD_PRELOAD": "libx.so:/y.so libz.so"}
    processes = start_processes(
        environment, NO_TORCH, [Variable(name=name, value=value) for name, value in variables.items()]
    )

    assert isinstance(processes, Processes)
    assert processes.library_path == ("/a", "", "/b/")
    assert processes.preload == ("libx.so", "/y.so", "libz.so")
    assert tuple(map(int, processes.glibc.split("."))) >= (2, 17)


def test_other_platforms_and_bare_folders_have_no_such_process(python: Path) -> None:
    environment = find_environment(python=str(python), prefix="")
    reason = Unavailable("a bare folder", Absence.NOT_APPLICABLE)

    windows = start(replace(environment, platform="win-amd64"))

    assert isinstance(windows, Unavailable)
    assert windows.absence is Absence.NOT_APPLICABLE
    assert start(replace(environment, interpreter=reason)) is reason


@pytest.mark.parametrize(
    ("loader", "absence"),
    [
        ("/lib/ld-musl-x86_64.so.1", Absence.NOT_APPLICABLE),
        ("", Absence.NOT_APPLICABLE),  # linked statically
        ("/nowhere/ld-linux-x86-64.so.2", Absence.UNREADABLE),
    ],
)
def test_an_interpreter_of_another_loader_is_not_emulated(
    loader: str, absence: Absence, python: Path, tmp_path: Path
) -> None:
    source = f'extern const char loader[] __attribute__((section(".interp"))) = "{loader}";' if loader else ""
    interpreter = build_library(tmp_path / "python3", source)
    environment = replace(find_environment(python=str(python), prefix=""), interpreter=str(interpreter))

    refused = start(environment)

    assert isinstance(refused, Unavailable)
    assert refused.absence is absence


def test_an_interpreter_that_does_not_start_is_said(python: Path, tmp_path: Path) -> None:
    program = "int main() {}"
    lost = build_library(tmp_path / "liblost.so")
    interpreter = tmp_path / "python3"
    command = [
        COMPILER or "g++",
        "-o",
        str(interpreter),
        "-x",
        "c++",
        "-",
        "-x",
        "none",
        "-Wl,--no-as-needed",
        str(lost),
    ]
    subprocess.run(command, input=program, text=True, check=True)
    lost.unlink()

    refused = start(replace(find_environment(python=str(python), prefix=""), interpreter=str(interpreter)))

    assert isinstance(refused, Unavailable)
    assert "liblost.so: cannot open shared object file" in refused.reason


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01\x01" + bytes(80)])
def test_what_is_no_program_is_said(content: bytes, python: Path, tmp_path: Path) -> None:
    interpreter = tmp_path / "python3"
    interpreter.write_bytes(content)

    refused = start(replace(find_environment(python=str(python), prefix=""), interpreter=str(interpreter)))

    assert isinstance(refused, Unavailable)
    assert str(interpreter) in refused.reason
