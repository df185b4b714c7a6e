"""Why the dynamic loader refuses a library: one cause for each failure, told by names and by what lies where."""

import re
from dataclasses import dataclass
from enum import Enum

from envdoctor.kb.torch_symbols import is_torch_symbol
from envdoctor.model.loading import LoadedLibrary, Loader, LoadFailure, LoadFault


class Cause(Enum):
    """What is to blame for a failure; of several that fit, the first."""

    OVERRIDDEN = "another file of that name is taken, and the right one is there"
    DAMAGED = "the file is damaged, or for another machine"
    OTHER_ABI = "it was built for the other C++ ABI"
    OTHER_TORCH = "it was built for another torch"
    OTHER_PYTHON = "it was built for another Python"
    CUDA_OR_TORCH = "a library of CUDA or torch is not there, or too old"
    DRIVER = "a library of the NVIDIA driver is not there"
    OLD_SYSTEM = "the C or C++ library is too old"
    SYSTEM_LIBRARY = "a library of the system is not there"
    OTHER = "another reason"


@dataclass(frozen=True, slots=True)
class Override:
    """A file that the loader takes, and the one of the same library that would have been right."""

    taken: LoadedLibrary
    right: str  # path


# What LD_LIBRARY_PATH and LD_PRELOAD bring was put there by somebody; the other places are the environment's own.
FORCED = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD"})

# They are compiled when a failure is there to be told apart.
_TORCH_LIBRARY = r"lib(torch|c10|caffe2|ATen|shm\.so|THC?\.so)"
_DRIVER_LIBRARY = r"lib(cuda|nvcuvid|nvidia-[\w-]+|nvoptix)\.so"
_CUDA_LIBRARY = (
    r"lib(cudart|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusolverMg|cusparse|cusparseLt|cudnn\w*|cutensor\w*|cupti"
    r"|cufile\w*|nccl|nvrtc|nvrtc-builtins|nvJitLink|nvjpeg|nvToolsExt|nvshmem\w*|nvinfer\w*|nvonnxparser|nppc|npp[iv]\w*"
    r"|nvblas)\.so"
)
_PYTHON_LIBRARY = r"libpython(\d+\.\d+)\w*\.so"
# As auditwheel and torch's own builds name what they put into a wheel.
_OWN_PART = r"[-.][0-9a-f]{8}\.(so|\d)"

_SYSTEM_VERSION = r"(GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP|GFORTRAN|LIBATOMIC)_"
_PYTHON_SYMBOL = r"_?Py[A-Z_]"
_CUDA_SYMBOL = (
    r"(?:__)?(?:cuda[A-Z]|cu[A-Z][a-z]|cublas|cudnn|cufft|cusparse|cusolver|curand|cutensor|cupti|nccl[A-Z]"
    r"|nvrtc|nvJitLink|nvtx|nvshmem)"
)


def find_cause(failure: LoadFailure, loader: Loader) -> Cause:
    """Tell what is to blame for a failure."""
    if find_override(failure, loader):
        return Cause.OVERRIDDEN
    if failure.fault is LoadFault.FILE:
        return Cause.OTHER if wants_executable_stack(failure) else Cause.DAMAGED
    if failure.fault is LoadFault.LIBRARY:
        return _cause_of_library(failure.name)
    if failure.fault is LoadFault.VERSION:
        return _cause_of_version(failure.name)
    return _cause_of_symbol(failure)


def find_override(failure: LoadFailure, loader: Loader) -> Override | None:
    """Find the file that is taken although another one that is there has what is missing."""
    provider = failure.provider
    for entry in loader.overridden:
        taken = entry.taken.path
        blamed = failure.file if failure.fault is LoadFault.FILE else provider.path if provider else taken
        helps = failure.fault is LoadFault.FILE or (entry.own in failure.holders and taken not in failure.holders)
        if taken == blamed and helps:
            return Override(entry.taken, entry.own)
    others = [holder for holder in failure.holders if provider and holder != provider.path]
    if provider and provider.found_through in FORCED and others:
        return Override(provider, others[0])
    return None


def wants_executable_stack(failure: LoadFailure) -> bool:
    """Tell whether a whole library is refused for a mark in its headers: by glibc from 2.41 on."""
    return failure.fault is LoadFault.FILE and "executable stack" in failure.words


def is_torch_library(name: str) -> bool:
    """Tell whether a library is a part of torch, by its name."""
    return re.match(_TORCH_LIBRARY, name) is not None


def is_cuda_library(name: str) -> bool:
    """Tell whether a library comes with CUDA, or is another one of NVIDIA's for it."""
    return re.match(_CUDA_LIBRARY, name) is not None


def is_part_of_wheel(name: str) -> bool:
    """Tell whether a library is one that a wheel brings along under a name of its own."""
    return re.search(_OWN_PART, name) is not None


def python_of(name: str) -> str:
    """Return the version of Python that a library is, ``3.8``; "" for others."""
    match = re.match(_PYTHON_LIBRARY, name)
    return match[1] if match else ""


def _cause_of_library(name: str) -> Cause:
    if python_of(name):
        return Cause.OTHER_PYTHON
    if re.match(_DRIVER_LIBRARY, name):
        return Cause.DRIVER
    if is_torch_library(name) or is_cuda_library(name):
        return Cause.CUDA_OR_TORCH
    return Cause.DAMAGED if is_part_of_wheel(name) else Cause.SYSTEM_LIBRARY


def _cause_of_version(name: str) -> Cause:
    if re.match(_SYSTEM_VERSION, name):
        return Cause.OLD_SYSTEM
    return Cause.CUDA_OR_TORCH if is_cuda_library(name) else Cause.OTHER


def _cause_of_symbol(failure: LoadFailure) -> Cause:
    if failure.other_abi:
        return Cause.OTHER_ABI
    if is_torch_symbol(failure.name):
        return Cause.OTHER_TORCH
    if failure.symbol_version:
        return _cause_of_version(failure.symbol_version)
    if re.match(_PYTHON_SYMBOL, failure.name):
        return Cause.OTHER_PYTHON
    return Cause.CUDA_OR_TORCH if re.match(_CUDA_SYMBOL, failure.name) else Cause.OTHER
