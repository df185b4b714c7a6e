"""The device code of the examined environment: of every library that its interpreter could load."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envdoctor.model.facts import (
    DeviceCode,
    Distribution,
    Environment,
    LibraryRole,
    TorchBuild,
    Unavailable,
)
from envdoctor.probes.device_code import read_device_code
from envdoctor.probes.library_files import Library, find_libraries
from envdoctor.probes.library_owners import LibraryOwners

# NVIDIA's own libraries, which wheels also bundle under mangled names (libnvjpeg.36e11081.so.13).
_NVIDIA_LIBRARY = re.compile(
    r"lib(cublas|cublasLt|cudart|cudnn|cudss|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|npp|nvJitLink|nvToolsExt"
    r"|nvblas|nvfatbin|nvjpeg|nvperf|nvrtc|nvshmem|nvvm)[A-Z_a-z]*[-.0-9]"
)


def find_device_code(
    environment: Environment,
    distributions: tuple[Distribution, ...] | Unavailable,
    torch: TorchBuild | Unavailable,
    *,
    deep: bool,
) -> tuple[DeviceCode, ...]:
    """Read the device code of every library that the examined interpreter could load, torch's first.

    Libraries without any are left out, those that cannot be read are not.
    """
    owners = LibraryOwners(() if isinstance(distributions, Unavailable) else distributions)
    loaded, others = ((), ()) if isinstance(torch, Unavailable) else (torch.loaded_libraries, torch.libraries)
    of_torch = dict.fromkeys((*loaded, *others))
    found = (
        _read(library, owners, is_loaded=library.path in loaded, is_torch=library.path in of_torch, deep=deep)
        for library in find_libraries(environment, of_torch)
    )
    return tuple(_without_copies(code for code in found if _is_telling(code)))


def _is_telling(code: DeviceCode) -> bool:
    return bool(code.containers or code.has_hip_code or code.unreadable)


def _read(library: Library, owners: LibraryOwners, *, is_loaded: bool, is_torch: bool, deep: bool) -> DeviceCode:
    role = LibraryRole.TORCH if is_torch else LibraryRole.EXTENSION
    code = read_device_code(library.path, role=role, always_loaded=is_loaded, deep=deep)
    if not _is_telling(code):
        return code
    # cuDNN and others lie in torch/lib up to torch 1.13: they are not torch's own code there either.
    owner = owners.owner_of(library)
    is_nvidia = owner.startswith("nvidia-") or _NVIDIA_LIBRARY.match(os.path.basename(library.path))
    return replace(code, distribution=owner, role=LibraryRole.NVIDIA if is_nvidia else role)


def _without_copies(codes: Iterable[DeviceCode]) -> Iterator[DeviceCode]:
    """Leave out second copies within a distribution: wheels have no links (libtorch.so and libtorch.so.1 in 1.0.0)."""
    seen = set()
    for code in codes:
        content = (code.distribution, code.size, code.containers, code.needed)
        if code.unreadable or content not in seen:
            yield code
        seen.add(content)
