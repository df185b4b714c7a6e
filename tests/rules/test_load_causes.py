"""What is to blame for a failure of the dynamic loader, told by names, and by what lies where."""

import pytest

from envdoctor.model.loading import LoadFailure, LoadFault
from envdoctor.rules._load_causes import Cause, find_cause, find_override
from tests.builders import (
    SITE_PACKAGES,
    a_damaged_file,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_missing_version,
    an_overridden_library,
)

SYSTEM_LIBSTDCXX = a_loaded_library("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", found_through="ld.so.cache")
OWN_NVJITLINK = f"{SITE_PACKAGES}/nvidia/nvjitlink/lib/libnvJitLink.so.12"
OLD_NVJITLINK = an_overridden_library("libnvJitLink.so.12", "12.1.105", "12.4.127", own=OWN_NVJITLINK)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("libcudart.so.11.0", Cause.CUDA_OR_TORCH),
        ("libcublasLt.so.11", Cause.CUDA_OR_TORCH),
        ("libcudnn_ops_infer.so.8", Cause.CUDA_OR_TORCH),
        ("libnvinfer.so.8", Cause.CUDA_OR_TORCH),
        ("libnvrtc.so.11.1", Cause.CUDA_OR_TORCH),
        ("libnppicc.so.11", Cause.CUDA_OR_TORCH),
        ("libtorch_cuda_cu.so", Cause.CUDA_OR_TORCH),
        ("libc10.so", Cause.CUDA_OR_TORCH),
        ("libcaffe2.so", Cause.CUDA_OR_TORCH),
        ("libcuda.so.1", Cause.DRIVER),
        ("libnvidia-ml.so.1", Cause.DRIVER),
        ("libnvcuvid.so.1", Cause.DRIVER),
        ("libpython3.8.so.1.0", Cause.OTHER_PYTHON),
        ("libpython3.6m.so.1.0", Cause.OTHER_PYTHON),
        ("libopenblasp-r0-59ffcd50.3.15.so", Cause.DAMAGED),
        ("libcudart.d9bbffd7.so.10.2", Cause.DAMAGED),
        ("libGL.so.1", Cause.SYSTEM_LIBRARY),
        ("libmpi.so.40", Cause.SYSTEM_LIBRARY),
        ("libcurl.so.4", Cause.SYSTEM_LIBRARY),
    ],
)
def test_a_missing_library_tells_the_cause_by_its_name(name: str, cause: Cause) -> None:
    assert find_cause(a_missing_library(name), a_loader()) is cause


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        ("GLIBC_2.32", Cause.OLD_SYSTEM),
        ("GLIBCXX_3.4.29", Cause.OLD_SYSTEM),
        ("CXXABI_1.3.13", Cause.OLD_SYSTEM),
        ("GOMP_4.5", Cause.OLD_SYSTEM),
        ("libcublas.so.12", Cause.CUDA_OR_TORCH),
        ("OPENSSL_1_1_1", Cause.OTHER),
    ],
)
def test_a_missing_version_tells_the_cause_by_its_name(version: str, cause: Cause) -> None:
    assert find_cause(a_missing_version(version, SYSTEM_LIBSTDCXX), a_loader()) is cause


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (a_missing_symbol("_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEE"), Cause.OTHER_TORCH),
        (a_missing_symbol("_ZNK3c104Type14isSubtypeOfExtERKS0_PSo"), Cause.OTHER_TORCH),
        (a_missing_symbol("_ZN6caffe26detail37_typeMetaDataInstance_preallocated_32E"), Cause.OTHER_TORCH),
        (a_missing_symbol("aoti_torch_dtype_complex128"), Cause.OTHER_TORCH),
        (a_missing_symbol("THPVariableClass"), Cause.OTHER_TORCH),
        (
            a_missing_symbol(
                "_ZN3c105ErrorC2ENS_14SourceLocationESs",
                other_abi=("_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",),
            ),
            Cause.OTHER_ABI,
        ),
        (a_missing_symbol("PyUnicode_AsWideCharString"), Cause.OTHER_PYTHON),
        (a_missing_symbol("_PyObject_GetDictPtr"), Cause.OTHER_PYTHON),
        (a_missing_symbol("cudaMallocAsync"), Cause.CUDA_OR_TORCH),
        (a_missing_symbol("ncclCommRegister"), Cause.CUDA_OR_TORCH),
        (a_missing_symbol("__nvJitLinkComplete_12_4", symbol_version="libnvJitLink.so.12"), Cause.CUDA_OR_TORCH),
        (a_missing_symbol("_ZSt28__throw_bad_array_new_lengthv", symbol_version="GLIBCXX_3.4.29"), Cause.OLD_SYSTEM),
        (a_missing_symbol("iJIT_NotifyEvent"), Cause.OTHER),
        (a_missing_symbol("_Z16rotate_nms_cudav"), Cause.OTHER),
    ],
)
def test_a_missing_symbol_tells_the_cause_by_its_name(failure: LoadFailure, cause: Cause) -> None:
    assert find_cause(failure, a_loader()) is cause


@pytest.mark.parametrize("says", ["file too short", "invalid ELF header", "wrong ELF class: ELFCLASS32"])
def test_a_file_that_is_no_library_is_damaged(says: str) -> None:
    assert find_cause(a_damaged_file(says), a_loader()) is Cause.DAMAGED


def test_the_file_that_wins_is_to_blame_where_the_own_one_has_what_is_missing() -> None:
    # https://github.com/pytorch/pytorch/issues/144244
    failure = a_missing_symbol(
        "__nvJitLinkComplete_12_4",
        symbol_version="libnvJitLink.so.12",
        provider=OLD_NVJITLINK.taken,
        holders=(OLD_NVJITLINK.own,),
    )
    override = find_override(failure, a_loader(overridden=(OLD_NVJITLINK,)))

    assert override is not None
    assert override.taken == OLD_NVJITLINK.taken
    assert override.right == OLD_NVJITLINK.own


def test_a_symbol_without_version_is_looked_for_in_all_that_win() -> None:
    # https://github.com/pytorch/pytorch/issues/119072
    nccl = an_overridden_library("libnccl.so.2", "2.16.2", "2.19.3")
    failure = a_missing_symbol("ncclCommRegister", holders=(nccl.own,))

    assert find_cause(failure, a_loader(overridden=(nccl,))) is Cause.OVERRIDDEN
    assert find_cause(failure, a_loader(overridden=(OLD_NVJITLINK,))) is Cause.CUDA_OR_TORCH


def test_a_file_that_wins_is_not_to_blame_for_what_the_own_one_lacks_as_well() -> None:
    failure = a_missing_symbol(
        "__nvJitLinkComplete_12_8", symbol_version="libnvJitLink.so.12", provider=OLD_NVJITLINK.taken
    )

    assert find_cause(failure, a_loader(overridden=(OLD_NVJITLINK,))) is Cause.CUDA_OR_TORCH


def test_what_a_forced_file_lacks_and_the_system_has_is_its_fault() -> None:
    old = a_loaded_library("/opt/gcc-7/lib64/libstdc++.so.6", found_through="LD_LIBRARY_PATH")
    failure = a_missing_version("GLIBCXX_3.4.29", old, holders=(SYSTEM_LIBSTDCXX.path,))
    override = find_override(failure, a_loader())

    assert override is not None
    assert override.right == SYSTEM_LIBSTDCXX.path


def test_what_the_loader_takes_by_itself_is_not_forced() -> None:
    failure = a_missing_version("GLIBCXX_3.4.29", SYSTEM_LIBSTDCXX, holders=("/opt/conda/lib/libstdc++.so.6",))

    assert find_cause(failure, a_loader()) is Cause.OLD_SYSTEM


def test_a_damaged_file_that_wins_is_in_the_way_of_a_sound_one() -> None:
    failure = a_damaged_file(file=OLD_NVJITLINK.taken.path)

    assert find_cause(failure, a_loader(overridden=(OLD_NVJITLINK,))) is Cause.OVERRIDDEN
    assert find_cause(failure, a_loader()) is Cause.DAMAGED


@pytest.mark.parametrize("fault", list(LoadFault))
def test_every_failure_has_a_cause(fault: LoadFault) -> None:
    failure = LoadFailure(words="", fault=fault, file="", name="")

    assert find_cause(failure, a_loader()) in Cause
