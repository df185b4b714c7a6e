"""Toolkits and compilers: made ones for every way to find and date them, real ones where this machine has them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envdoctor.model.facts import HostCompiler, Toolchain, Toolkit, Unavailable
from envdoctor.model.versions import CudaVersion
from envdoctor.probes.toolchain import read_toolchain
from tests.builders import variables

NVCC_12_4 = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2024 NVIDIA Corporation
Cuda compilation tools, release 12.4, V12.4.131
Build cuda_12.4.r12.4/compiler.34097967_0"""
GCC_9 = """\
g++ (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0
Copyright (C) 2019 Free Software Foundation, Inc."""
GCC_4_8 = """\
g++ (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)
Copyright (C) 2015 Free Software Foundation, Inc."""
GCC_CONDA = """\
x86_64-conda-linux-gnu-c++ (conda-forge gcc 12.3.0-3) 12.3.0
Copyright (C) 2022 Free Software Foundation, Inc."""
CLANG_14 = """\
Debian clang version 14.0.6
Target: x86_64-pc-linux-gnu"""
INTEL = "icpc (ICC) 2021.10.0 20230609\nCopyright (C) 1985-2023 Intel Corporation."


def program(path: Path, says: str = "", *, then: str = "exit 0") -> Path:
    """A program that answers whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n{then}\n")
    path.chmod(0o755)
    return path


def toolkit(home: Path, **files: str) -> Path:
    """A toolkit whose nvcc must not be run, because its files tell the version."""
    for name, content in files.items():
        file = home / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return program(home / "bin/nvcc", then="exit 1")


def read(tmp_path: Path, **values: str) -> Toolchain:
    """Read with nothing on PATH but the shell's own programs, and without a toolkit in the default place."""
    search_path = f"{values.pop('PATH', tmp_path / 'bin')}:/nowhere"
    return read_toolchain(variables(PATH=search_path, **values), tmp_path / "usr/local/cuda")


# --- toolkits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"version_dot_json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.20240314"}}'}, (12, 4)),
        ({"version_dot_json": '{\n "cuda" : {\n "name" : "CUDA SDK",\n "version" : "11.8.0"\n }\n}'}, (11, 8)),
        ({"version_dot_txt": "CUDA Version 10.2.89\n"}, (10, 2)),
        ({"version_dot_txt": "CUDA Version 9.0.176\nCUDA Patch Version 9.0.176.1\n"}, (9, 0)),
        ({"include__cuda_dot_h": f"{'/* licence */' * 1000}\n#define CUDA_VERSION 13000\n"}, (13, 0)),
        ({"version_dot_json": "not JSON", "version_dot_txt": "CUDA Version 11.0.207"}, (11, 0)),
    ],
)
def test_the_files_of_a_toolkit_tell_its_version(tmp_path: Path, files: dict[str, str], version: CudaVersion) -> None:
    nvcc = toolkit(tmp_path / "cuda", **files)

    assert read(tmp_path, CUDA_HOME=str(tmp_path / "cuda")).toolkits == (
        Toolkit(nvcc=str(nvcc), toolkit_version=CudaVersion(*version), found_through="CUDA_HOME"),
    )


def test_an_nvcc_without_files_around_it_is_asked(tmp_path: Path) -> None:
    nvcc = program(tmp_path / "bin/nvcc", NVCC_12_4)

    assert read(tmp_path).toolkits == (
        Toolkit(nvcc=str(nvcc), toolkit_version=CudaVersion(12, 4), found_through="PATH"),
    )


def test_toolkits_come_in_the_order_in_which_torch_looks(tmp_path: Path) -> None:
    for place in ("home", "path", "bin/..", "usr/local/cuda"):
        toolkit(tmp_path / place, version_dot_txt="CUDA Version 10.2.89")

    found = read(tmp_path, CUDA_HOME=str(tmp_path / "home"), CUDA_PATH=str(tmp_path / "path")).toolkits

    assert [one.found_through for one in found] == ["CUDA_HOME", "CUDA_PATH", "PATH", f"{tmp_path}/usr/local/cuda"]


def test_a_toolkit_that_is_found_in_several_ways_counts_once(tmp_path: Path) -> None:
    toolkit(tmp_path / "usr/local/cuda-12.4", version_dot_txt="CUDA Version 12.4.0")
    (tmp_path / "usr/local/cuda").symlink_to("cuda-12.4")

    [found] = read(tmp_path, CUDA_HOME=str(tmp_path / "usr/local/cuda-12.4")).toolkits

    assert found.found_through == "CUDA_HOME"


@pytest.mark.parametrize("home", ["", "/nowhere/cuda-99", "relative"])
def test_a_variable_that_leads_nowhere_finds_nothing(tmp_path: Path, home: str) -> None:
    assert read(tmp_path, CUDA_HOME=home).toolkits == ()


@pytest.mark.parametrize(
    ("says", "then", "reason"),
    [
        ("what?", "exit 1", "`nvcc --version` names no release"),
        ("", "kill -SEGV $$", "`nvcc --version` names no release"),
        ("release 1234567.8", "", "`nvcc --version` names no release"),
        ("", "exec yes", "given up after 16 MB of output"),
    ],
)
def test_an_nvcc_that_does_not_tell_is_a_missing_version(tmp_path: Path, says: str, then: str, reason: str) -> None:
    program(tmp_path / "bin/nvcc", says, then=then)

    assert [one.toolkit_version for one in read(tmp_path).toolkits] == [Unavailable(reason)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("version.json", '{"cuda": {"version": "1234567.8"}}'),
        ("version.json", '"cuda":{' * 8000),
        ("version.txt", "CUDA Version 123.4"),
        ("include/cuda.h", f"#define CUDA_VERSION {'1' * 5000}"),
    ],
)
def test_a_file_that_names_no_version_is_passed_over(tmp_path: Path, file: str, text: str) -> None:
    program(tmp_path / "bin/nvcc", "release 12.4")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)

    assert [str(one.toolkit_version) for one in read(tmp_path).toolkits] == ["12.4"]


def test_programs_that_hang_are_given_up_together(tmp_path: Path) -> None:
    program(tmp_path / "bin/nvcc", then="exec sleep 600")
    program(tmp_path / "bin/g++", then="sleep 20; exit 0")

    found = read(tmp_path, PATH=f"{tmp_path}/bin:/usr/bin:/bin")

    assert found.toolkits[0].toolkit_version == Unavailable("given up after 5 seconds")


def test_a_file_that_cannot_be_run_is_a_missing_version(tmp_path: Path) -> None:
    nvcc = tmp_path / "bin/nvcc"
    nvcc.parent.mkdir()
    nvcc.write_bytes(b"\x7fELF\x02\x01 damaged")
    nvcc.chmod(0o755)

    [found] = read(tmp_path).toolkits

    assert found.toolkit_version == Unavailable(f"{nvcc}: Exec format error")


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on PATH")
def test_the_toolkit_of_this_machine_is_dated_as_nvcc_dates_it() -> None:
    says = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout

    found = read_toolchain(variables(PATH=os.environ["PATH"])).toolkits

    assert found
    assert all(f"release {one.toolkit_version}," in says for one in found)


# --- compilers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "kind", "version"),
    [
        (GCC_9, "gcc", "9.4.0"),
        (GCC_4_8, "gcc", "4.8.5"),
        (GCC_CONDA, "gcc", "12.3.0"),
        (CLANG_14, "clang", "14.0.6"),
        (INTEL, "unknown", Unavailable("neither gcc nor clang by its `--version`")),
    ],
)
def test_a_compiler_is_known_by_what_it_says(tmp_path: Path, says: str, kind: str, version: str | Unavailable) -> None:
    path = program(tmp_path / "bin/c++", says)

    assert read(tmp_path, PATH=f"{tmp_path}/bin:/usr/bin:/bin").compilers[0] == HostCompiler(
        path=str(path), kind=kind, version=version, found_through="PATH c++"
    )


@pytest.mark.parametrize("value", ["g++-9", "ccache g++-9 -m64", "{folder}/g++-9", "'g++-9'"])
def test_a_variable_names_the_compiler(tmp_path: Path, value: str) -> None:
    path = program(tmp_path / "bin/g++-9", GCC_9)

    [found] = read(tmp_path, CXX=value.format(folder=path.parent), PATH=f"{path.parent}").compilers

    assert found == HostCompiler(path=str(path), kind="gcc", version="9.4.0", found_through="CXX")


@pytest.mark.parametrize("value", ["g++-99", "'g++-99"])
def test_a_variable_that_names_no_program_is_told(tmp_path: Path, value: str) -> None:
    [found] = read(tmp_path, CXX=value).compilers

    assert (found.path, found.kind, found.found_through) == (value, "unknown", "CXX")
    assert found.version == Unavailable(f"{value}: No such file or directory")


def test_names_of_one_compiler_count_once(tmp_path: Path) -> None:
    program(tmp_path / "bin/g++", GCC_9)
    (tmp_path / "bin/c++").symlink_to("g++")

    [found] = read(tmp_path, PATH=f"{tmp_path}/bin", CXX="g++").compilers

    assert found.found_through == "CXX"


def test_no_compiler_is_no_fault(tmp_path: Path) -> None:
    assert read(tmp_path) == Toolchain(toolkits=(), compilers=())
