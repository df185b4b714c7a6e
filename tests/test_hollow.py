"""Hollow environments tell the same as the real ones: what the table of real wheels and torch itself say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.image import read_image
from envdoctor.binary.reader import open_file
from envdoctor.binary.symbols import SymbolTable, gnu_hash
from envdoctor.model.arch import format_arch_list
from envdoctor.model.facts import LibraryRole, TorchBuild
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environment import find_environment
from envdoctor.probes.libraries import find_device_code
from envdoctor.probes.library_files import find_libraries
from envdoctor.probes.torch_build import read_torch_build
from tests.compiler import build_library, needs_compiler
from tests.hollow import TORCH_1_10, TORCH_1_13, TORCH_2_7, TORCH_2_13_CPU, TORCH_2_14, XFORMERS_0_0_28, unpack
from tools.hollow import differences, hollow, write_copy
from tools.hollow_tables import Asked, keys_of, needed_names
from tools.verify_wheels import TABLE, compare

NAMES = (TORCH_1_10, TORCH_1_13, TORCH_2_7, TORCH_2_13_CPU, TORCH_2_14)
WHEELS = {
    "torch-1.10.2-cp37": TORCH_1_10,
    "torch-1.13.1-cp311": TORCH_1_13,
    "torch-2.14.1-cp311": TORCH_2_14,
    "torchvision-0.29.1-cp311": TORCH_2_14,
}
FATBIN_SECTIONS = {".nv_fatbin", "__nv_relfatbin"}


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    for wheel in json.loads(TABLE.read_text())["wheels"]:
        for start, name in WHEELS.items():
            if wheel["wheel"].startswith(start):
                # Code in data sections is not kept.
                libraries = (row for row in wheel["libraries"] if set(row["containers_by_section"]) <= FATBIN_SECTIONS)
                yield from ((name, row) for row in libraries)


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: unpack(name, tmp_path_factory.mktemp(name)) for name in NAMES}


@pytest.mark.parametrize(
    ("name", "row"), list(rows()), ids=lambda value: value["path"] if isinstance(value, dict) else value
)
def test_a_hollow_library_holds_what_the_real_one_holds(
    name: str, row: dict[str, Any], environments: dict[str, Path]
) -> None:
    with open_file(environments[name] / row["path"]) as reader:
        assert list(compare(row, read_image(reader))) == []
        assert reader.size == row["size"]


@pytest.mark.parametrize(
    ("name", "version", "arch_list", "cxx11_abi"),
    [
        (TORCH_1_10, "1.10.2+cu102", "sm_37 sm_50 sm_60 sm_70", False),
        (TORCH_1_13, "1.13.1+cu117", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86", False),
        (TORCH_2_7, "2.7.1+cu126", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", True),
        (TORCH_2_14, "2.14.1+cu130", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", True),
    ],
)
def test_a_hollow_torch_tells_how_it_was_built(
    name: str, version: str, arch_list: str, cxx11_abi: bool, environments: dict[str, Path]
) -> None:
    environment = find_environment(python="", prefix=str(environments[name]))
    torch = read_torch_build(environment, find_distributions(environment))

    assert isinstance(torch, TorchBuild)
    assert isinstance(torch.arch_list, tuple)
    assert (torch.version, format_arch_list(torch.arch_list), torch.cxx11_abi) == (version, arch_list, cxx11_abi)
    assert torch.arch_list_source == "libtorch_python.so: torch.cuda.get_arch_list()"
    assert torch.problems == ()


@pytest.mark.parametrize(
    ("name", "always_loaded"),
    [
        (TORCH_1_10, {"libtorch_cuda.so"}),
        (TORCH_1_13, {"libtorch_cuda_cu.so", "libtorch_cuda_cpp.so"}),
        (TORCH_2_14, {"libtorch_cuda.so", "libtorch_nvshmem.so"}),
    ],
)
def test_the_libraries_that_torch_loads_are_told_from_the_others(
    name: str, always_loaded: set[str], environments: dict[str, Path]
) -> None:
    environment = find_environment(python="", prefix=str(environments[name]))
    distributions = find_distributions(environment)
    torch = read_torch_build(environment, distributions)

    found = find_device_code(find_libraries(environment, torch), distributions, torch, deep=False)

    loaded = {Path(code.library).name for code in found if code.role is LibraryRole.TORCH and code.always_loaded}
    assert loaded == always_loaded
    assert [code.library for code in found if code.unreadable or not code.distribution] == []


def test_an_environment_of_gigabytes_takes_megabytes(environments: dict[str, Path]) -> None:
    files = [path.stat() for path in environments[TORCH_2_14].rglob("*") if path.is_file()]

    assert sum(status.st_size for status in files) > 4 << 30
    assert sum(status.st_blocks * 512 for status in files) < 100 << 20


def test_a_library_is_hollowed_without_loss_of_what_is_read(tmp_path: Path) -> None:
    original = Path(__file__).parents[1] / "fixtures" / "binaries" / "t1.so"
    write_copy(hollow(original), tmp_path / "t1.so")

    assert list(differences(original, tmp_path / "t1.so")) == []
    assert (tmp_path / "t1.so").stat().st_blocks * 512 < original.stat().st_size / 10


def names_that_it_needs(path: Path) -> list[str]:
    with open_file(path) as reader:
        return needed_names(parse_elf(reader))


def defined_names(path: Path, names: list[str]) -> set[str]:
    with open_file(path) as reader:
        table = SymbolTable(parse_elf(reader))
        return {name for name in names if table.defines(name.encode(), gnu_hash(name.encode()), None)}


@needs_compiler
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_a_hollow_library_has_the_symbols_that_are_asked_for(style: str, tmp_path: Path) -> None:
    source = """
    #include <string>
    struct Missing { virtual ~Missing(); };
    Missing* make() { return new Missing; }
    void kept() {}
    void kept(std::string) {}
    void dropped() {}
    """
    original, copy = tmp_path / "whole.so", tmp_path / "hollow.so"
    build_library(original, source, options=[f"-Wl,--hash-style={style}"])
    asked = [Asked(b"_Z4keptv", None), Asked(b"_Z4keptSs", None)]
    write_copy(hollow(original, keys_of(asked)), copy)

    candidates = ["_Z4keptv", "_Z4keptNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "_Z7droppedv"]
    assert defined_names(original, candidates) == set(candidates)
    assert defined_names(copy, candidates) == set(candidates[:2])
    assert names_that_it_needs(copy) == names_that_it_needs(original)
    assert "_ZTV7Missing" in names_that_it_needs(copy)
    assert list(differences(original, copy, asked)) == []


def test_hollow_libraries_of_torch_have_what_they_ask_of_one_another(environments: dict[str, Path]) -> None:
    libraries = list((environments[TORCH_1_13] / "torch" / "lib").glob("lib*.so*"))
    [asking] = [library for library in libraries if library.name == "libtorch_python.so"]
    asked = [name for name in names_that_it_needs(asking) if name.startswith(("_ZN3c10", "_ZN2at"))]

    assert len(asked) > 100
    assert set().union(*(defined_names(library, asked) for library in libraries)) == set(asked)


def test_an_extension_misses_in_a_hollow_torch_what_it_misses_in_the_real_one(
    environments: dict[str, Path], tmp_path: Path
) -> None:
    """It was built for torch 2.4; the real loader stops at the first of these."""
    asked = names_that_it_needs(unpack(XFORMERS_0_0_28, tmp_path) / "xformers" / "_C.so")
    libraries = (environments[TORCH_1_13] / "torch" / "lib").glob("lib*.so*")
    defined = set().union(*(defined_names(library, asked) for library in libraries))
    missing = [name for name in asked if name.startswith(("_ZN3c10", "_ZNK3c10")) and name not in defined]

    assert missing[:3] == [
        "_ZNK3c105Error4whatEv",
        "_ZN3c104cuda20CUDACachingAllocator9allocatorE",
        "_ZNK3c107SymBool10guard_boolEPKcl",
    ]
