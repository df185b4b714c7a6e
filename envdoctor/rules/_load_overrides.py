"""Files that win through LD_LIBRARY_PATH or LD_PRELOAD over those of the environment, and whether that breaks it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envdoctor.model.facts import TorchBuild
from envdoctor.model.loading import Loader, OverriddenLibrary
from envdoctor.rules._load_causes import FORCED, find_override, is_cuda_library, is_torch_library

_MAIN_CUDNN = re.compile(r"libcudnn\.so\.\d+$")


@dataclass(frozen=True, slots=True)
class OldCudnn:
    """A cuDNN with which torch refuses to work."""

    library: OverriddenLibrary
    runtime: str
    compiled: str


def find_old_cudnn(loader: Loader, torch: TorchBuild | None) -> OldCudnn | None:
    """Find a cuDNN that torch's own check refuses.

    torch/backends/cudnn/__init__.py, from 1.13.1 to 2.14.1: another major version, or an older minor version than it
    was compiled with.
    """
    for library in loader.overridden:
        if not _MAIN_CUDNN.match(library.taken.name) or not _is_forced(library):
            continue
        compiled = _compiled_version(torch, library)
        if _refuses(library.taken_version, compiled):
            return OldCudnn(library, library.taken_version, compiled)
    return None


def _compiled_version(torch: TorchBuild | None, library: OverriddenLibrary) -> str:
    """Return what torch tells, unless it is no more than the ``8`` in the name of a file of its own."""
    told = torch.cudnn_version if torch and isinstance(torch.cudnn_version, str) else ""
    return told if len(_numbers(told)) > 1 else library.own_version


def _refuses(runtime: str, compiled: str) -> bool:
    match _numbers(runtime), _numbers(compiled):
        case [major, minor, *_], [asked_major, asked_minor, *_]:
            return major != asked_major or minor < asked_minor
    return False


def find_lucky(loader: Loader, torch: TorchBuild | None) -> Iterator[OverriddenLibrary]:
    """Yield the libraries of NVIDIA and torch that are taken from elsewhere in another version, and break nothing."""
    failures = [failed.failure for failed in loader.failed]
    if loader.torch is not None:
        failures.append(loader.torch)
    to_blame = {override.taken.path for failure in failures if (override := find_override(failure, loader))}
    if old_cudnn := find_old_cudnn(loader, torch):
        to_blame.add(old_cudnn.library.taken.path)
    for library in loader.overridden:
        name = library.taken.name.rpartition("/")[2]
        is_ours = is_cuda_library(name) or is_torch_library(name)
        if is_ours and _is_forced(library) and not _is_same(library) and library.taken.path not in to_blame:
            yield library


def _is_forced(library: OverriddenLibrary) -> bool:
    return library.taken.found_through in FORCED


def _is_same(library: OverriddenLibrary) -> bool:
    """Tell whether both are of one release, as far as their numbers go."""
    pairs = list(zip(_numbers(library.taken_version), _numbers(library.own_version), strict=False))
    return library.same_content or (len(pairs) > 1 and all(one == other for one, other in pairs))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", version)]
