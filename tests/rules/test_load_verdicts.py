"""Which failures of the dynamic loader break an import, which matter less, and which healthy environments have."""

from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.loading import FailedLoad, LoadWay
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_verdicts import Standing, judge_loads
from tests.builders import (
    SITE_PACKAGES,
    a_damaged_file,
    a_distribution,
    a_failed_load,
    a_failed_load_from_the_cache,
    a_library,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_missing_version,
    a_torch,
)

TORCH_SYMBOL = "_ZN2at4_ops5zeros4callEv"
GLIBC = a_loaded_library("/lib/x86_64-linux-gnu/libc.so.6", found_through="ld.so.cache")
GLIBCXX = a_loaded_library("/opt/conda/lib/libstdc++.so.6", found_through="already loaded")
FORCED_GLIBCXX = a_loaded_library("/opt/gcc-9/lib64/libstdc++.so.6", found_through="LD_LIBRARY_PATH")
CUDART = f"{SITE_PACKAGES}/nvidia/cuda_runtime/lib/libcudart.so.11.0"
NOT_IMPORTED: dict[str, Any] = {"way": LoadWay.PERHAPS, "import_chain": ()}
ALONE: dict[str, Any] = {"needs_torch": False, "after_torch": False}


def of_package(path: str, distribution: str = "", **changes: Any) -> dict[str, Any]:
    owner = distribution or path.partition("/")[0]
    return {"library": f"{SITE_PACKAGES}/{path}", "distribution": owner, **NOT_IMPORTED, **changes}


def standing(kb: KnowledgeBase, failed: FailedLoad, version: str = "1.0", **changes: Any) -> Standing:
    loader = a_loader(failed, **changes)
    distributions = (a_distribution(failed.distribution, version),)
    [*loads] = judge_loads(Scene(loader=loader, kb=kb, torch=a_torch(), distributions=distributions))
    return loads[0].standing if loads else Standing.NOTHING


@pytest.mark.parametrize(
    "failure",
    [a_missing_library(), a_missing_library("libGL.so.1"), a_missing_symbol(TORCH_SYMBOL), a_damaged_file()],
)
def test_what_importing_a_package_imports_has_to_load(kb: KnowledgeBase, failure: Any) -> None:
    assert standing(kb, a_failed_load(failure)) is Standing.CERTAIN


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (a_missing_symbol(TORCH_SYMBOL), Standing.CERTAIN),
        (a_missing_symbol("_ZN3c105ErrorC2ESs", other_abi=("_ZN3c105ErrorC2ENSt7__cxx11E",)), Standing.CERTAIN),
        (a_missing_version("GLIBC_2.32", GLIBC), Standing.CERTAIN),
        (a_missing_library("libtorch_cuda_cu.so"), Standing.CERTAIN),
        (a_missing_library("libcudart.so.11.0"), Standing.SUSPECTED),
        (a_missing_library("libcudart.so.11.0", holders=(CUDART,)), Standing.NOTHING),
        (a_missing_library("libmpi.so.40"), Standing.NOTHING),
        (a_missing_symbol("some_function"), Standing.NOTHING),
    ],
)
def test_faults_that_no_healthy_environment_has_need_no_import(
    kb: KnowledgeBase, failure: Any, expected: Standing
) -> None:
    assert standing(kb, a_failed_load(failure, **NOT_IMPORTED)) is expected


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (a_missing_library("libcudart.so.11.0"), Standing.NOTHING),
        (a_missing_library("libmpi.so.40"), Standing.NOTHING),
        (a_missing_symbol("PyModule_Create2"), Standing.NOTHING),
        (a_missing_version("GLIBC_2.38", GLIBC), Standing.SUSPECTED),
        (a_damaged_file("file too short"), Standing.SUSPECTED),
        (a_damaged_file("invalid ELF header"), Standing.NOTHING),
        (a_damaged_file("wrong ELF class: ELFCLASS32"), Standing.NOTHING),
    ],
)
def test_outside_of_torch_more_is_healthy(kb: KnowledgeBase, failure: Any, expected: Standing) -> None:
    assert standing(kb, a_failed_load(failure, **ALONE, **NOT_IMPORTED)) is expected


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (a_missing_version("GLIBCXX_3.4.29", GLIBCXX), Standing.CERTAIN),
        (a_missing_version("GLIBC_2.38", GLIBC), Standing.CERTAIN),
        (a_missing_version("GLIBCXX_3.4.29", FORCED_GLIBCXX, holders=(GLIBCXX.path,)), Standing.CERTAIN),
        (a_missing_symbol(TORCH_SYMBOL), Standing.SUSPECTED),
        (a_missing_library("libcudart.so.11.0", holders=(CUDART,)), Standing.SUSPECTED),
        (a_damaged_file("file too short"), Standing.SUSPECTED),
        (a_missing_library("libcuda.so.1"), Standing.NOTHING),
    ],
)
def test_what_torch_compiled_for_itself_may_be_left_over(kb: KnowledgeBase, failure: Any, expected: Standing) -> None:
    assert standing(kb, a_failed_load_from_the_cache(failure)) is expected


def test_a_pointer_of_git_lfs_is_never_meant(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_damaged_file("invalid ELF header"), **ALONE, **NOT_IMPORTED)
    code = a_library(library=failed.library, unreadable="a Git LFS pointer: the library itself was not downloaded")
    [load] = judge_loads(Scene(loader=a_loader(failed), kb=kb, distributions=(), device_code=(code,)))

    assert load.standing is Standing.SUSPECTED


@pytest.mark.parametrize("failure", [a_missing_library(holders=(CUDART,)), a_missing_symbol("x", holders=(CUDART,))])
def test_what_the_package_opens_before_may_mend_it(kb: KnowledgeBase, failure: Any) -> None:
    preloads = ("mmcv/__init__.py:3",)

    assert standing(kb, a_failed_load(failure, preloads=preloads)) is Standing.NOTHING
    assert standing(kb, a_failed_load(failure, preloads=())) is Standing.CERTAIN


def test_what_is_nowhere_cannot_be_opened_before(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_library(), preloads=("mmcv/__init__.py:3",))

    assert standing(kb, failed) is Standing.CERTAIN


def test_torch_may_bring_what_a_package_lacks_alone(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_library("libcudart.so.12"), **ALONE)
    brought = a_loaded_library(f"{SITE_PACKAGES}/nvidia/cuda_runtime/lib/libcudart.so.12")

    assert standing(kb, failed, torch_process=(brought,)) is Standing.SUSPECTED
    assert standing(kb, failed) is Standing.CERTAIN


def test_libraries_of_the_driver_are_the_business_of_the_driver(kb: KnowledgeBase) -> None:
    # A job is examined on a machine without GPU: the container of the job will bring libcuda.so.1.
    assert standing(kb, a_failed_load(a_missing_library("libcuda.so.1"))) is Standing.NOTHING


def test_nothing_is_said_of_extensions_while_torch_itself_fails(kb: KnowledgeBase) -> None:
    broken = a_missing_library("libcublas.so.11")

    assert standing(kb, a_failed_load(a_missing_symbol(TORCH_SYMBOL)), torch=broken) is Standing.NOTHING
    assert standing(kb, a_failed_load(a_missing_library("libGL.so.1"), **ALONE), torch=broken) is Standing.CERTAIN


# --- kb/load_effects.toml ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "expected"), [("0.23.0", Standing.CERTAIN), ("0.14.1+cu117", Standing.GOES_ON), ("", Standing.GOES_ON)]
)
def test_new_torchvision_ends_its_import_and_old_goes_on(kb: KnowledgeBase, version: str, expected: Standing) -> None:
    failed = a_failed_load(a_missing_symbol(TORCH_SYMBOL), **of_package("torchvision/_C.so"))

    assert standing(kb, failed, version) is expected


def test_what_the_user_sees_instead_is_told(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_library("libcudart.so.12"), **of_package("torchvision/_C.so"))
    distributions = (a_distribution("torchvision", "0.23.0"),)
    [load] = judge_loads(Scene(loader=a_loader(failed), kb=kb, distributions=distributions))

    assert load.seen == "RuntimeError: operator torchvision::nms does not exist"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mpi4py/MPI.mpich.cpython-310-x86_64-linux-gnu.so", "libmpi.so.12"),
        ("torio/lib/libtorio_ffmpeg4.so", "libavutil.so.56"),
        ("torchaudio/lib/libtorchaudio_sox.so", "libsox.so"),
        ("torchcodec/libtorchcodec_core5.so", "libavutil.so.57"),
        ("onnxruntime/capi/libonnxruntime_providers_tensorrt.so", "libnvinfer.so.10"),
        ("cupy_backends/cuda/libs/cudnn.cpython-310-x86_64-linux-gnu.so", "libcudnn.so.8"),
        ("cupy_backends/cuda/libs/cublas.cpython-310-x86_64-linux-gnu.so", "libcublas.so.12"),
        ("numba/np/ufunc/tbbpool.cpython-310-x86_64-linux-gnu.so", "libtbb.so.12"),
        ("nvidia/nvshmem/lib/nvshmem_bootstrap_mpi.so.3", "libmpi.so.40"),
        ("cv2/qt/plugins/platforms/libqxcb.so", "libxcb-icccm.so.4"),
        ("dgl/dgl_sparse/libdgl_sparse_pytorch_2.0.0.so", "libtorch_cuda_cu.so"),
    ],
)
def test_variants_that_are_not_used_are_not_missed(kb: KnowledgeBase, path: str, name: str) -> None:
    assert standing(kb, a_failed_load(a_missing_library(name), **of_package(path))) is Standing.NOTHING


def test_another_torch_is_no_fault_of_a_variant(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_symbol(TORCH_SYMBOL), **of_package("open3d/cpu/open3d_torch_ops.so"))

    assert standing(kb, failed) is Standing.NOTHING


def test_the_library_that_bitsandbytes_chooses_is_judged(kb: KnowledgeBase) -> None:
    failed = a_failed_load(
        a_missing_library("libcusparse.so.11"), **ALONE, **of_package("bitsandbytes/libbitsandbytes_cuda118.so")
    )

    assert standing(kb, failed) is Standing.GOES_ON


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (a_missing_library("libcublasLt.so.11"), Standing.LAZY),
        (a_missing_library("libcublasLt.so.12", holders=("/x/libcublasLt.so.12",)), Standing.NOTHING),
        # libonnxruntime_providers_shared.so is opened before, for all to see
        (a_missing_symbol("Provider_GetHost"), Standing.NOTHING),
        (a_damaged_file(), Standing.LAZY),
    ],
)
def test_a_library_that_is_opened_later_is_a_matter_of_then(
    kb: KnowledgeBase, failure: Any, expected: Standing
) -> None:
    path = "onnxruntime/capi/libonnxruntime_providers_cuda.so"

    assert standing(kb, a_failed_load(failure, **ALONE, **of_package(path, "onnxruntime-gpu"))) is expected


def test_a_way_that_is_lazy_needs_no_row(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_symbol(TORCH_SYMBOL), way=LoadWay.LAZY, import_chain=())

    assert standing(kb, failed) is Standing.LAZY


def test_the_libraries_of_jax_are_opened_by_jax(kb: KnowledgeBase) -> None:
    path = "jax_cuda12_plugin/_solver.so"
    there = a_missing_library("libcusolver.so.11", holders=("/x/nvidia/cusolver/lib/libcusolver.so.11",))
    gone = a_missing_library("libcusolver.so.11")

    assert standing(kb, a_failed_load(there, **ALONE, **of_package(path))) is Standing.NOTHING
    assert standing(kb, a_failed_load(gone, **ALONE, **of_package(path))) is Standing.GOES_ON


def test_another_torch_comes_before_the_other_abi_where_the_symbols_tell(kb: KnowledgeBase) -> None:
    # torchvision 0.23.0 beside torch 2.1.2: the function is there in the old ABI, and others are of torch 2.8 and later
    failure = a_missing_symbol(
        "_ZNK5torch8autograd4Node4nameB5cxx11Ev",
        other_abi=("_ZNK5torch8autograd4Node4nameEv",),
        undefined=("_ZNK5torch8autograd4Node4nameB5cxx11Ev", "_ZN3c104cuda14ExchangeDeviceEa"),
    )
    scene = Scene(loader=a_loader(a_failed_load(failure)), kb=kb, torch=a_torch("2.1.2+cu121"), distributions=())
    [load] = judge_loads(scene)

    assert load.cause is Cause.OTHER_TORCH
