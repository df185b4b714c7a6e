"""The device code of the examined environment: of every library that its interpreter could load."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from envdoctor.model.facts import (
    DeviceCode,
    Distribution,
    LibraryRole,
    TorchBuild,
    Unavailable,
)
from envdoctor.probes.device_code import read_device_code
from envdoctor.probes.library_files import Library, LibraryFiles
from envdoctor.probes.library_owners import LibraryOwners

# NVIDIA's own libraries, which wheels also bundle under mangled names (libnvjpeg.36e11081.so.13).
_NVIDIA_LIBRARY = re.compile(
    r"lib(cublas|cublasLt|cudart|cudnn|cudss|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|npp|nvJitLink|nvToolsExt"
    r"|nvblas|nvfatbin|nvjpeg|nvperf|nvrtc|nvshmem|nvvm)[A-Z_a-z]*[-.0-9]"
)

# A disk answers several readers at once: 0.8 s instead of 2.1 s for the 184 libraries beside torch 2.14.1, when none of
# them is in memory. Files in memory are read by one: threads only take turns there.
_READERS_OF_A_DISK = 4


def find_device_code(
    found: LibraryFiles,
    distributions: tuple[Distribution, ...] | Unavailable,
    torch: TorchBuild | Unavailable,
    *,
    deep: bool,
) -> tuple[DeviceCode, ...]:
    """Read the device code of every library that was found.

    Libraries without any are left out, those that cannot be read are not. NVIDIA's own are read with *deep* only:
    they hold nine of ten containers beside torch 2.14.1, a part of them in data sections, and no rule judges them.
    """
    owners = LibraryOwners(() if isinstance(distributions, Unavailable) else distributions)
    loaded, others = ((), ()) if isinstance(torch, Unavailable) else (torch.loaded_libraries, torch.libraries)
    of_torch = {*loaded, *others}

    def read(library: Library) -> DeviceCode:
        role = LibraryRole.TORCH if library.path in of_torch else LibraryRole.EXTENSION
        return read_device_code(library.path, role=role, always_loaded=library.path in loaded, deep=deep)

    libraries = tuple(library for library in found.libraries if deep or not is_of_nvidia(library))
    codes = zip(libraries, _read_all(read, libraries), strict=True)
    return tuple(_without_copies(_with_owner(code, library, owners) for library, code in codes if _is_telling(code)))


def _read_all(read: Callable[[Library], DeviceCode], libraries: Sequence[Library]) -> Iterable[DeviceCode]:
    if all(_is_in_memory(library.path) for library in libraries):
        return map(read, libraries)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_READERS_OF_A_DISK) as readers:
        return list(readers.map(read, libraries))


def _is_in_memory(path: str) -> bool:
    """Tell whether a file was read lately, by its first byte."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return True  # nothing of it will be read
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError:  # EAGAIN: it would have to wait for the disk; or a file system that cannot tell
        return False
    finally:
        os.close(descriptor)
    return True


def _is_telling(code: DeviceCode) -> bool:
    return bool(code.containers or code.has_hip_code or code.unreadable)


def _with_owner(code: DeviceCode, library: Library, owners: LibraryOwners) -> DeviceCode:
    owner = owners.owner_of(library)
    is_nvidia = owner.startswith("nvidia-") or is_of_nvidia(library)
    return replace(code, distribution=owner, role=LibraryRole.NVIDIA if is_nvidia else code.role)


def is_of_nvidia(library: Library) -> bool:
    """Tell NVIDIA's own libraries, by their names."""
    # cuDNN and others lie in torch/lib up to torch 1.13: they are not torch's own code there either.
    return _NVIDIA_LIBRARY.match(os.path.basename(library.path)) is not None


def _without_copies(codes: Iterable[DeviceCode]) -> Iterator[DeviceCode]:
    """Leave out second copies within a distribution: wheels have no links (libtorch.so and libtorch.so.1 in 1.0.0)."""
    seen = set()
    for code in codes:
        name = os.path.basename(code.library).partition(".so")[0]
        content = (code.distribution, name, code.size, code.containers, code.needed)
        if code.unreadable or content not in seen:
            yield code
        seen.add(content)
