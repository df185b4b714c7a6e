"""The distributions that are made for one build of torch, and what their own files say of that build."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from envdoctor.model.facts import (
    Companion,
    CudaCheck,
    Distribution,
    Environment,
    MetadataKind,
    TorchFlavour,
    Unavailable,
)
from envdoctor.probes.foreign_files import read_text
from envdoctor.probes.import_path import find_import_packages, read_constants

_INSTALLED = frozenset({MetadataKind.DIST_INFO, MetadataKind.EGG_INFO, MetadataKind.EGG_LINK})

# Released in step with torch by the same people: their version.py has the local version that metadata leave out.
_OF_PYTORCH = frozenset({"torchvision", "torchaudio"})
# Where their code compares CUDA versions (`_check_cuda_version`).
_CHECKING_MODULES = ("extension.py", "_extension/utils.py", "_extension.py")
_CHECK = "compiled with different CUDA"
_CHECK_OF_MINOR = re.compile(r"t_minor != tv_minor|ta_version != t_version")
_LONGEST_MODULE = 1 << 20

_XFORMERS = "xformers"
_XFORMERS_BUILD = "cpp_lib.json"

# How builders mark what a wheel is for, in its local version: torch_scatter 2.1.1+pt113cu117, flash_attn
# 2.7.4.post1+cu12torch2.6cxx11abiFALSE, natten 0.17.1+torch230cu121, exllamav2 0.1.5+cu121.torch2.3.1, +cu118, +cpu; in
# the build string of conda: py310_cu118, cuda112py310h51fe464_200. What cxx11abi says is not taken: flash_attn 2.8
# wheels marked FALSE hold the new ABI (https://github.com/Dao-AILab/flash-attention/issues/1717).
_TORCH_MARK = re.compile(r"(?<![a-z])(?P<kind>pt|torch)[._-]?(?P<number>\d{1,4}(?:\.\d{1,3}){0,2})")
_CUDA_MARK = re.compile(r"(?<![a-z])cu(?:da)?[._-]?(?P<number>\d{1,3}(?:\.\d{1,2}(?!\d))?)")
_CPU_MARK = re.compile(r"(?<![a-z])cpu(?![a-z])")
_HIP_MARK = re.compile(r"(?<![a-z])rocm")
_MENTIONS_TORCH = re.compile(r"torch\b(?![-.\w])", re.IGNORECASE)
_WHEEL_VERSION = re.compile(r"[^/]+?-(?P<version>[^-/]+)-[^/]+\.whl$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """What a mark, or a file, says of the torch that something was built for."""

    torch_release: str = ""
    cuda: str = ""
    flavour: TorchFlavour | None = None


def find_companions(
    environment: Environment, distributions: tuple[Distribution, ...] | Unavailable
) -> tuple[Companion, ...] | Unavailable:
    """Find the installed distributions whose files tell what torch they were built for."""
    if isinstance(distributions, Unavailable):
        return distributions
    installed = (each for each in distributions if each.metadata_kind in _INSTALLED and not each.shadowed_by)
    found = (_read_companion(each, environment) for each in installed)
    return tuple(companion for companion in found if companion is not None)


def _read_companion(distribution: Distribution, environment: Environment) -> Companion | None:
    if distribution.name in _OF_PYTORCH or distribution.name == _XFORMERS:
        for package in find_import_packages(environment, distribution.name)[:1]:
            read = _read_xformers if distribution.name == _XFORMERS else _read_of_pytorch
            if companion := read(distribution, package):
                return companion
    return _read_marks(distribution)


# --- torchvision, torchaudio -------------------------------------------------------------------------------------


def _read_of_pytorch(distribution: Distribution, package: Path) -> Companion | None:
    try:
        version = read_constants(package / "version.py").get("__version__")
    except (OSError, ValueError):
        return None
    if not isinstance(version, str):
        return None
    build = _read_build(version.partition("+")[2])
    source = f"{package.name}/version.py"
    if build.flavour is None and distribution.build:
        build = _read_build(distribution.build)
        version, source = f"{version} {distribution.build}", "conda-meta"
    return Companion(
        distribution=distribution.name,
        version=version,
        source=source,
        torch_release=build.torch_release,
        cuda=build.cuda,
        flavour=build.flavour,
        cuda_check=_read_check(package),
    )


def _read_check(package: Path) -> CudaCheck:
    """Tell what the installed code refuses: torchvision before 0.16 and torchaudio any other version, later the major.

    Read in torchvision 0.8.2, 0.11.3, 0.15.2, 0.16.0 and torchaudio 0.13.1, 2.0.2, 2.1.0, 2.8.0, 2.11.0.
    """
    for name in _CHECKING_MODULES:
        try:
            text = read_text(package / name, largest=_LONGEST_MODULE)
        except OSError:
            continue
        if _CHECK in text:
            return CudaCheck.MINOR if _CHECK_OF_MINOR.search(text) else CudaCheck.MAJOR
    return CudaCheck.NONE


# --- xformers ----------------------------------------------------------------------------------------------------


def _read_xformers(distribution: Distribution, package: Path) -> Companion | None:
    """Read what setup.py of xformers leaves beside its libraries about its build."""
    try:
        version = json.loads(read_text(package / _XFORMERS_BUILD, largest=_LONGEST_MODULE))["version"]
        torch, cuda, hip = version["torch"], version.get("cuda"), version.get("hip")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(torch, str):
        return None
    is_cuda = type(cuda) is int and cuda > 0  # 1201 for 12.1
    return Companion(
        distribution=distribution.name,
        version=str(distribution.version) if isinstance(distribution.version, str) else "",
        source=f"{package.name}/{_XFORMERS_BUILD}",
        torch_release=torch.partition("+")[0],
        cuda=f"{cuda // 100}.{cuda % 100}" if is_cuda else "",
        flavour=TorchFlavour.CUDA if is_cuda else TorchFlavour.ROCM if hip else TorchFlavour.CPU,
    )


# --- all others --------------------------------------------------------------------------------------------------


def _read_marks(distribution: Distribution) -> Companion | None:
    for version, source in _find_versions(distribution):
        build = _read_build(version.partition("+")[2])
        is_for_torch = build.torch_release or any(map(_MENTIONS_TORCH.match, distribution.requires))
        if build.flavour is not None and is_for_torch:
            return Companion(
                distribution=distribution.name,
                version=version,
                source=source,
                torch_release=build.torch_release,
                cuda=build.cuda,
                flavour=build.flavour,
            )
    return None


def _find_versions(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """Yield the version, and the one in the name of the wheel: builders rename what they have built."""
    if isinstance(distribution.version, str):
        yield distribution.version, os.path.basename(distribution.metadata_path)
    if match := _WHEEL_VERSION.search(unquote(distribution.direct_url.partition("#")[0])):
        yield match["version"], "direct_url.json"


def _read_build(mark: str) -> _Build:
    text = mark.lower()
    torch, cuda = _TORCH_MARK.search(text), _CUDA_MARK.search(text)
    flavour = (
        TorchFlavour.CUDA
        if cuda
        else TorchFlavour.ROCM
        if _HIP_MARK.search(text)
        else TorchFlavour.CPU
        if _CPU_MARK.search(text)
        else None
    )
    return _Build(
        torch_release=_spell_release(torch["kind"], torch["number"]) if torch else "",
        cuda=_spell_cuda(cuda["number"]) if cuda else "",
        flavour=flavour,
    )


def _spell_release(kind: str, number: str) -> str:
    """Write ``pt113`` and ``pt210`` as 1.13 and 2.10, ``torch230`` as 2.3.0, and what has dots as it is."""
    if "." in number or len(number) == 1:
        return number
    if kind == "torch" and len(number) > len("20"):
        return f"{number[0]}.{number[1:-1]}.{number[-1]}"
    return f"{number[0]}.{number[1:]}"


def _spell_cuda(number: str) -> str:
    """Write ``118`` and ``92`` as 11.8 and 9.2, and ``12`` as it is."""
    if "." in number or (len(number) < len("118") and not number.startswith("9")):
        return number
    return f"{number[:-1]}.{number[-1]}"
