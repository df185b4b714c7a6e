"""The torch that the examined interpreter would import, read from its files: nothing of it is executed."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from packaging.version import Version

from envdoctor.binary import torch_strings
from envdoctor.binary.elf import Elf, parse_elf
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.model.arch import Arch
from envdoctor.model.facts import (
    Absence,
    Distribution,
    Environment,
    MetadataKind,
    TorchBuild,
    TorchFlavour,
    Unavailable,
)
from envdoctor.probes.distributions import normalise
from envdoctor.probes.foreign_files import is_locked
from envdoctor.probes.import_path import describe_absence, find_import_packages, find_shadowing_modules
from envdoctor.probes.torch_files import TorchFiles

T = TypeVar("T")

_LFS_POINTER = b"version https://git-lfs"

# Opened by name at every `import torch`: libtorch_global_deps.so by torch/__init__.py, libnvfuser_codegen.so while
# torch 2.0 and 2.1 initialise (torch/csrc/jit/codegen/cuda/interface.cpp).
_OPENED_BY_NAME = ("libtorch_python.so", "libtorch_global_deps.so", "libnvfuser_codegen.so")

# Where the CUDA kernels are since 1.5; before, they are in libtorch.so or libcaffe2_gpu.so.
_CUDA_LIBRARIES = ("libtorch_cuda.so", "libtorch_cuda_cu.so")


def read_torch_build(
    environment: Environment, distributions: tuple[Distribution, ...] | Unavailable
) -> TorchBuild | Unavailable:
    """Read what the files of torch say about their build; what is odd about them becomes its `problems`."""
    installed = () if isinstance(distributions, Unavailable) else distributions
    packages = [folder for folder in find_import_packages(environment, "torch") if _is_torch(folder)]
    if not packages:
        return describe_absence(environment, "torch")
    torch = TorchFiles(packages[0], environment, installed)
    version_file = torch.version_file
    flavour = torch.flavour
    arch_list, source = _read_arch_list(torch)
    return TorchBuild(
        root=str(torch.root),
        version=version_file.version,
        flavour=flavour,
        build_cuda_version=torch.build_cuda_version,
        hip_version=version_file.hip,
        git_version=version_file.git_version,
        debug=version_file.debug,
        arch_list=arch_list,
        arch_list_source=source,
        cxx11_abi=_read_cxx11_abi(torch),
        cudnn_version=_read_component_version(torch, _CUDNN),
        nccl_version=_read_component_version(torch, _NCCL),
        distribution=torch.owners[0].metadata_path if torch.owners else "",
        installed_by=torch.installed_by,
        libraries=tuple(map(str, torch.libraries.values())),
        loaded_libraries=tuple(_find_loaded_libraries(torch)),
        problems=(*_find_usurpers(environment, packages[0]), *_find_problems(torch)),
        library_problems=tuple(_find_library_problems(torch)),
        rivals=tuple(map(str, packages[1:])),
        has_init=os.path.isfile(torch.root / "__init__.py"),
        missing_extension=_find_missing_extension(torch),
    )


def _is_torch(folder: Path) -> bool:
    """Whether there is more in a folder than users and caches leave in one."""
    return any(os.path.exists(folder / name) for name in ("__init__.py", "version.py", "lib"))


# --- architectures and ABI ---------------------------------------------------------------------------------------


def _read_arch_list(torch: TorchFiles) -> tuple[tuple[Arch, ...] | Unavailable, str]:
    """Read what `torch.cuda.get_arch_list()` would say, and say where it was read."""
    if torch.flavour is TorchFlavour.CPU:
        return (), "a CPU build"
    if torch.flavour is not TorchFlavour.CUDA:
        reason = f"a {torch.flavour.value} build has no CUDA architectures"
        return Unavailable(reason, Absence.NOT_APPLICABLE), ""
    damage = []
    for name, part, search in _arch_list_places(torch):
        try:
            arch_list = _ask(torch.libraries[name], search)
        except (OSError, BinaryError) as exc:
            damage.append(f"`{name}`: {exc}")
            continue
        if arch_list:
            return arch_list, f"{name}: {part}"
    if damage:
        return Unavailable("; ".join(dict.fromkeys(damage))), ""
    return Unavailable(f"torch {torch.version_file.version} has no list of architectures in its libraries"), ""


def _arch_list_places(torch: TorchFiles) -> Iterator[tuple[str, str, Callable[[Elf], tuple[Arch, ...]]]]:
    if "libtorch_python.so" in torch.libraries:
        yield "libtorch_python.so", "torch.cuda.get_arch_list()", torch_strings.arch_list_of_accessor
        yield "libtorch_python.so", "text in .rodata", torch_strings.arch_list_of_strings
    # The common flags, which 1.2 to 1.5 state only here, and 1.0 and 1.1 not even here.
    for name in torch.libraries:
        if name == "libtorch.so" or name.startswith("libtorch_cuda"):
            yield name, "nvcc flags", torch_strings.arch_list_of_compiler_flags


def _read_cxx11_abi(torch: TorchFiles) -> bool | Unavailable:
    name = "libtorch_python.so"
    library = torch.libraries.get(name)
    if library is None:
        return Unavailable(f"there is no `{name}`")
    try:
        answer = _ask(library, torch_strings.uses_cxx11_strings)
    except (OSError, BinaryError) as exc:
        return Unavailable(f"`{name}`: {exc}")
    return Unavailable(f"no name in `{name}` has a std::string") if answer is None else answer


# --- cuDNN and NCCL ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Component:
    """A library of NVIDIA that torch is built with, and the traces that tell its version."""

    title: str
    project: str  # how the names of its wheels begin
    build_string: re.Pattern[str]  # in the build string of conda's pytorch, e.g. "py3.8_cuda11.1_cudnn8.0.5_0"
    library: re.Pattern[str]  # the file name of a bundled copy


_CUDNN = _Component(
    "cuDNN", "nvidia-cudnn", re.compile(r"cudnn(\d+(?:\.\d+)*)"), re.compile(r"libcudnn(?:-\w+)?\.so\.([\d.]+)$")
)
_NCCL = _Component(
    "NCCL", "nvidia-nccl", re.compile(r"nccl(\d+(?:\.\d+)*)"), re.compile(r"libnccl(?:-\w+)?\.so\.([\d.]+)$")
)


def _read_component_version(torch: TorchFiles, component: _Component) -> str | Unavailable:
    if torch.flavour is not TorchFlavour.CUDA:
        return Unavailable(f"a {torch.flavour.value} build", Absence.NOT_APPLICABLE)
    requirements = (requirement for owner in torch.owners for requirement in owner.requires)
    required = (normalise(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements)
    if project := next((name for name in required if name.startswith(component.project)), ""):
        return _installed_version(torch, project)
    builds = (component.build_string.search(owner.build) for owner in torch.owners)
    bundled = (component.library.match(name) for name in torch.libraries)
    for trace in filter(None, (*builds, *bundled)):
        return str(trace[1])
    # conda-forge's pytorch uses the conda package of that name.
    packages = (d for d in torch.installed if d.metadata_kind is MetadataKind.CONDA_META)
    for package in packages:
        if package.name == component.title.lower() and torch.installed_by == "conda":
            return package.version
    return Unavailable(f"{component.title} is part of torch's own libraries, or there is none")


def _installed_version(torch: TorchFiles, project: str) -> str | Unavailable:
    found = [d.version for d in torch.installed if d.name == project and not d.shadowed_by]
    return found[0] if found else Unavailable(f"`{project}`, which torch asks for, is not installed")


# --- libraries ---------------------------------------------------------------------------------------------------


def _find_loaded_libraries(torch: TorchFiles) -> Iterator[str]:
    """Yield the libraries that every `import torch` loads, from `torch._C` on along DT_NEEDED."""
    opened = [torch.libraries[name] for name in _OPENED_BY_NAME if name in torch.libraries]
    waiting = [*torch.suitable_modules, *opened]
    seen = {path.name for path in waiting}
    while waiting:
        path = waiting.pop(0)
        yield str(path)
        new = [name for name in _read_needed(path) if name not in seen]
        seen.update(new)
        waiting += filter(None, map(torch.find_library, new))


def _read_needed(path: Path) -> tuple[str, ...]:
    try:
        return _ask(path, lambda library: library.needed)
    except (OSError, BinaryError):
        return ()  # `_find_problems` says it


def _ask(path: Path, question: Callable[[Elf], T]) -> T:
    with open_file(path) as reader:
        return question(parse_elf(reader))


# --- what is odd -------------------------------------------------------------------------------------------------


def _find_usurpers(environment: Environment, package: Path) -> Iterator[str]:
    # What PYTHONPATH hides is a fact of its own: `shadowed_modules`.
    told = {entry.path for entry in environment.search_path if entry.origin == "PYTHONPATH"}
    for module in find_shadowing_modules(environment, package):
        if str(module.parent) not in told:
            yield f"`{module}` comes first on the search path: `import torch` finds it instead"


def _find_problems(torch: TorchFiles) -> Iterator[str]:
    if torch.version_file.problem:
        yield torch.version_file.problem
    if is_locked(torch.root / "__init__.py"):
        yield "`torch/__init__.py` cannot be read by this user"
    yield from _find_metadata_problems(torch)


def _find_library_problems(torch: TorchFiles) -> Iterator[str]:
    if _lacks_cuda_library(torch):
        yield "`libtorch_cuda.so` is missing from a build with CUDA"
    for path in (*torch.extension_modules, *torch.libraries.values()):
        if damage := _find_damage(path):
            yield f"`{path.name}`: {damage}"


def _find_metadata_problems(torch: TorchFiles) -> Iterator[str]:
    if len(claimants := _find_claimants(torch)) > 1:
        names = ", ".join(f"`{Path(owner.metadata_path).name}`" for owner in claimants)
        yield f"several distributions claim the folder: {names}"
    for owner in torch.owners:
        if isinstance(owner.version, str) and _is_another_version(owner, torch.version_file.version):
            metadata = Path(owner.metadata_path).name
            yield f"`version.py` says {torch.version_file.version}, `{metadata}` says {owner.version}"


def _find_claimants(torch: TorchFiles) -> list[Distribution]:
    """Who claims the folder, without what is wrong with any distribution that it happens to.

    That is metadata that lie there twice, and a version of conda's beside another one (`contested_projects`).
    """
    by_name = {owner.name: owner for owner in torch.owners if owner.metadata_kind is not MetadataKind.CONDA_META}
    versions = {owner.version for owner in by_name.values()}
    of_conda = [owner for owner in torch.owners if owner.metadata_kind is MetadataKind.CONDA_META]
    return [*by_name.values(), *(owner for owner in of_conda if owner.version in versions)]


def _is_another_version(owner: Distribution, version: str) -> bool:
    """Whether the metadata belong to another torch than the files.

    Metadata often leave the local part out (2.8.0 for 2.8.0+cu128), or the number of the build (2.3.1 for
    2.3.1.post100 at conda-forge); or they alone name the commit (Debian's 1.13.0a0+gitunknown for 1.13.0a0).
    """
    try:
        claimed, found = Version(str(owner.version)), Version(version)
    except ValueError:  # also of numbers that are too long for Python
        return False
    if claimed.release != found.release:
        return True
    if claimed.local is None or (found.local is None and claimed.local.startswith("git")):
        return False
    return claimed.local != found.local


def _find_missing_extension(torch: TorchFiles) -> str:
    if not torch.extension_modules:
        return "there is none"
    if torch.suitable_modules:
        return ""
    return "there is only " + ", ".join(f"`{module.name}`" for module in torch.extension_modules)


def _lacks_cuda_library(torch: TorchFiles) -> bool:
    is_split = "libtorch_cpu.so" in torch.libraries  # since 1.5
    return torch.flavour is TorchFlavour.CUDA and is_split and not torch.libraries.keys() & set(_CUDA_LIBRARIES)


def _find_damage(path: Path) -> str:
    try:
        with open_file(path) as reader:
            if reader.peek(0, len(_LFS_POINTER)) == _LFS_POINTER:
                return "a pointer of Git LFS instead of the library"
            # The table of sections is the last thing in the file: it is gone when the file is cut off.
            parse_elf(reader).sections  # noqa: B018  read for the error that it raises
    except (OSError, BinaryError) as exc:
        return str(exc)
    return ""
