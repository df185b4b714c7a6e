"""Which libraries of an environment are asked about, by what they export, need and are called."""

import os
import sys
from pathlib import Path

import pytest

from envdoctor import kb
from envdoctor.model.bitsandbytes import Choice
from envdoctor.model.facts import SearchEntry, TorchBuild, Unavailable
from envdoctor.model.loading import ForeignModule
from envdoctor.probes.import_chain import ImportChains
from envdoctor.probes.library_files import find_libraries
from envdoctor.probes.library_owners import LibraryOwners
from envdoctor.probes.loader_process import Processes, start_processes
from envdoctor.probes.modules import OpenedLibrary, Selection, choose_variants, find_foreign_modules
from tests.builders import NO_TORCH, a_distribution, a_torch, an_environment, variables
from tests.compiler import build_library, needs_compiler

pytestmark = needs_compiler

TAGGED = ".cpython-310-x86_64-linux-gnu.so"


def module(path: Path, init: str = "", *, needs: tuple[Path, ...] = ()) -> Path:
    """Build an extension module, or what has another function instead."""
    stem = path.name.partition(".")[0]
    return build_library(path, f'extern "C" void *{init or f"PyInit_{stem}"}() {{ return 0; }}', needs=needs)


def find(
    root: Path,
    *,
    torch: TorchBuild | Unavailable = NO_TORCH,
    variants: Choice | None = None,
    suffixes: tuple[str, ...] = (TAGGED, ".abi3.so", ".so"),
    python_version: tuple[int, ...] = (3, 10, 13),
) -> dict[str, OpenedLibrary]:
    entries = (SearchEntry(path=str(root), origin="site-packages"),)
    program = os.path.realpath(sys.executable)
    environment = an_environment(
        interpreter=program, search_path=entries, extension_suffixes=suffixes, python_version=python_version
    )
    found = find_libraries(environment, torch)
    processes = start_processes(environment, NO_TORCH, ())
    assert isinstance(processes, Processes)
    opened = Selection(environment, torch, found, variants, processes.alone, kb.load()).find_opened()
    return {each.library.place: each for each in opened}


# --- extension modules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [TAGGED, ".abi3.so", ".so"])
def test_a_module_is_known_by_its_suffix_and_what_it_exports(suffix: str, tmp_path: Path) -> None:
    module(tmp_path / "x" / "ops" / f"_C{suffix}")

    [opened] = find(tmp_path).values()

    assert (opened.module, opened.is_lazy, opened.needs_torch) == ("x.ops._C", False, False)


def test_a_module_of_python_2_may_be_named_so(tmp_path: Path) -> None:
    module(tmp_path / "x" / "_ext.so", "init_ext")
    module(tmp_path / "x" / "foomodule.so", "initfoo")
    module(tmp_path / "x" / "barmodule.so", "initbarmodule")

    found = find(tmp_path, suffixes=(".so", "module.so"), python_version=(2, 7, 18))

    assert {each.module for each in found.values()} == {"x._ext", "x.foo", "x.barmodule"}


@pytest.mark.parametrize("init", ["PyInit_other", "initialise", "PyInit__C2", "init_C"])
def test_what_exports_no_module_of_its_name_is_none(init: str, tmp_path: Path) -> None:
    module(tmp_path / "x" / "_C.so", init)

    assert find(tmp_path) == {}


def test_a_library_beside_modules_is_not_asked_about(tmp_path: Path) -> None:
    module(tmp_path / "x" / "libhelper.so.1", "help")
    module(tmp_path / "x.libs" / "_C.so")
    module(tmp_path / "torch" / "_C.so")
    module(tmp_path / "nvidia" / "cublas" / "lib" / "libcublas.so.12")

    assert find(tmp_path, torch=a_torch(root=str(tmp_path / "torch"), libraries=(), loaded_libraries=())) == {}


def test_a_module_in_a_folder_that_no_statement_can_name_has_no_name(tmp_path: Path) -> None:
    module(tmp_path / "linux-x86_64" / "_C.so")

    [opened] = find(tmp_path).values()

    assert not opened.module


@pytest.mark.parametrize(
    ("name", "expected"),
    [("_C.so", "x._C"), (f"_C{TAGGED}", "x._C"), ("libx.so", None), ("libx.so.1", None)],
)
@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x7fELF\x02\x01\x01"])
def test_a_damaged_file_is_taken_for_what_its_name_says(
    name: str, expected: str | None, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / name).write_bytes(content)

    assert [each.module for each in find(tmp_path).values()] == ([expected] if expected else [])


# --- libraries for torch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["libtorch.so", "libtorch_cpu.so", "libc10.so", "libc10_cuda.so", "libcaffe2_gpu.so"])
def test_what_needs_torch_is_opened_through_torch(name: str, tmp_path: Path) -> None:
    torch = module(tmp_path / "elsewhere" / name, "f")
    module(tmp_path / "site" / "x" / "_C.so", "TORCH_LIBRARY_init", needs=(torch,))

    [opened] = find(tmp_path / "site").values()

    assert (opened.module, opened.needs_torch) == ("", True)


def test_a_library_between_may_be_what_needs_torch(tmp_path: Path) -> None:
    """libtorchaudio.so stands between torchaudio's extension modules and torch."""
    torch = module(tmp_path / "elsewhere" / "libtorch.so", "f")
    first = module(tmp_path / "site" / "x" / "lib" / "libx.so", "g", needs=(torch,))
    second = module(tmp_path / "site" / "x" / "lib" / "libtwo.so", "h", needs=(first,))
    module(tmp_path / "site" / "x" / "_C.so", needs=(second,))
    module(tmp_path / "site" / "y" / "_C.so")

    found = find(tmp_path / "site")

    assert {place: each.needs_torch for place, each in found.items()} == {
        "x/_C.so": True,
        "x/lib/libx.so": True,
        "y/_C.so": False,
    }


def test_libraries_that_need_each_other_are_gone_through_once(tmp_path: Path) -> None:
    first = module(tmp_path / "x" / "liba.so", "a")
    second = module(tmp_path / "x" / "libb.so", "b", needs=(first,))
    module(first, "a", needs=(second,))
    module(tmp_path / "x" / "_C.so", needs=(first,))

    assert not find(tmp_path)["x/_C.so"].needs_torch


# --- what the knowledge base says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "is_lazy"),
    [
        ("onnxruntime/capi/libonnxruntime_providers_cuda.so", True),
        ("nvidia/cudnn/lib/libcudnn_ops.so.9", True),
        ("torch/lib/libtorch_cuda_linalg.so", True),
        ("torchvision/image.so", False),
    ],
)
def test_what_is_opened_by_name_is_asked_about(place: str, *, is_lazy: bool, tmp_path: Path) -> None:
    module(tmp_path / place, "f")

    assert find(tmp_path)[place].is_lazy == is_lazy


@pytest.mark.parametrize(
    "place",
    [
        "mpi4py/MPI.mpich.cpython-310-x86_64-linux-gnu.so",
        "torchaudio/lib/libtorchaudio_ffmpeg.so",
        "torio/lib/_torio_ffmpeg6.so",
        "torio/lib/libtorio_ffmpeg4.so",
        "bitsandbytes/libbitsandbytes_rocm62.so",
        f"cupy_backends/cuda/libs/cudnn{TAGGED}",
        f"cupy_backends/cuda/libs/nccl{TAGGED}",
        f"cupy_backends/cuda/libs/cutensor{TAGGED}",
    ],
)
def test_variants_of_which_one_is_used_are_left_alone(place: str, tmp_path: Path) -> None:
    torch = module(tmp_path / "elsewhere" / "libtorch.so", "f")
    module(tmp_path / "site" / place, needs=(torch,))

    assert find(tmp_path / "site") == {}


def test_of_the_variants_of_bitsandbytes_the_one_for_torch_is_asked_about(tmp_path: Path) -> None:
    for number in (118, 121, 126):
        module(tmp_path / "bitsandbytes" / f"libbitsandbytes_cuda{number}.so", "f")
    torch = a_torch("2.1.2+cu121", root=str(tmp_path / "torch"), libraries=(), loaded_libraries=())
    distributions = (a_distribution("bitsandbytes", "0.43.0"),)
    environment = an_environment(search_path=(SearchEntry(path=str(tmp_path), origin="site-packages"),))
    found = find_libraries(environment, torch)

    default = choose_variants(found, distributions, torch, ())
    named = choose_variants(found, distributions, torch, variables(BNB_CUDA_VERSION="126"))

    assert [*find(tmp_path, torch=torch, variants=default)] == ["bitsandbytes/libbitsandbytes_cuda121.so"]
    assert [*find(tmp_path, torch=torch, variants=named)] == ["bitsandbytes/libbitsandbytes_cuda126.so"]
    assert choose_variants(found, (), torch, ()) is None


# --- modules for other interpreters ------------------------------------------------------------------------------


def foreign(root: Path) -> list[ForeignModule]:
    environment = an_environment(search_path=(SearchEntry(path=str(root), origin="site-packages"),))
    distributions = (a_distribution("x", "1.0", location=str(root), metadata_path=str(root / "x-1.0.dist-info")),)
    owners, chains = LibraryOwners(distributions), ImportChains(environment)
    return list(find_foreign_modules(environment, find_libraries(environment, NO_TORCH), owners, chains))


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_module_for_another_python_is_told_with_what_imports_it(tmp_path: Path) -> None:
    put(tmp_path / "x" / "__init__.py", "\nfrom .ops import _C")
    put(tmp_path / "x" / "ops" / "__init__.py")
    library = put(tmp_path / "x" / "ops" / "_C.cpython-38-x86_64-linux-gnu.so")

    assert foreign(tmp_path) == [
        ForeignModule(
            library=str(library),
            module="x.ops._C",
            tag="cpython-38-x86_64-linux-gnu",
            distribution="x",
            import_chain=("x/__init__.py:2",),
            has_siblings=False,
        )
    ]


@pytest.mark.parametrize("name", [f"_C{TAGGED}", "_C.abi3.so", "_C.so", "_C.py", "_C/__init__.py"])
def test_a_module_that_is_there_for_this_python_too_is_not_missed(name: str, tmp_path: Path) -> None:
    put(tmp_path / "x" / "_C.cpython-38-x86_64-linux-gnu.so")
    put(tmp_path / "x" / name)

    assert foreign(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "has_siblings"),
    [(f"x/_D{TAGGED}", True), ("x/_D.so", True), ("x.libs/libgfortran-91cc3cb1.so", False), ("y/_C.so", False)],
)
def test_whether_the_distribution_has_other_modules_for_this_python(
    name: str, has_siblings: bool, tmp_path: Path
) -> None:
    put(tmp_path / "x" / "_C.cpython-38-x86_64-linux-gnu.so")
    put(tmp_path / name)

    [found] = foreign(tmp_path)

    assert found.has_siblings is has_siblings


def test_a_module_that_no_distribution_owns_may_have_siblings(tmp_path: Path) -> None:
    put(tmp_path / "lost" / "_C.cpython-38-x86_64-linux-gnu.so")

    [found] = foreign(tmp_path)

    assert found.has_siblings


def test_a_module_for_another_machine_is_foreign(tmp_path: Path) -> None:
    put(tmp_path / "x" / "_C.cpython-310-aarch64-linux-gnu.so")

    [found] = foreign(tmp_path)

    assert (found.tag, found.import_chain) == ("cpython-310-aarch64-linux-gnu", ())


# --- names that distributions are imported by --------------------------------------------------------------------


RECORD = """\
flash_attn/__init__.py,sha256=x,1
flash_attn/ops/a.py,,
flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so,,
flash_attn-2.7.dist-info/METADATA,,
flash_attn.libs/libx.so,,
../../bin/x.py,,
LICENSE,,
docs/a.md,,
"""


@pytest.mark.parametrize(
    ("file", "content"), [("top_level.txt", "flash_attn\nflash_attn_2_cuda\n"), ("RECORD", RECORD)]
)
def test_metadata_tell_the_names_that_are_imported(file: str, content: str, tmp_path: Path) -> None:
    metadata = tmp_path / "x.dist-info"
    put(metadata / file, content)
    owners = LibraryOwners((a_distribution("flash-attn", metadata_path=str(metadata)),))

    assert owners.import_names("flash-attn") == ("flash_attn", "flash_attn_2_cuda")
    assert owners.import_names("other") == ()
