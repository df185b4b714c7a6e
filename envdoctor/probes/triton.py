"""The triton of the environment and the `ptxas` that it starts, which is read and not run."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.ptxas import read_label
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.facts import Distribution, Environment, TritonBuild, Unavailable, Variable
from envdoctor.model.versions import CudaVersion
from envdoctor.probes.import_path import describe_absence, find_import_packages, read_constants

_PROJECTS = frozenset({"triton", "pytorch-triton", "triton-nightly"})
_FOLDERS = ("backends/nvidia/bin", "third_party/cuda/bin")  # since 3.0; in 2.x
# `get_ptxas` in triton/backends/nvidia/compiler.py: triton 3.3 and later start the second program from 10.0 on. Some
# (3.9) do so from 9.0 on, which makes no difference: both programs know sm_90a.
_FIRST_BLACKWELL = ComputeCapability(10, 0)


def read_triton_build(
    environment: Environment,
    distributions: tuple[Distribution, ...] | Unavailable,
    variables: tuple[Variable, ...],
) -> TritonBuild | Unavailable:
    """Find the ptxas that triton would start here, and read its release and its targets."""
    packages = find_import_packages(environment, "triton")
    if not packages:
        return describe_absence(environment, "triton")
    package = packages[0]
    named = {variable.name: variable.value for variable in variables}
    # torch/_inductor/runtime/compile_tasks.py names the one of torch for triton, where torch brings one.
    of_torch = (str(torch / "bin" / "ptxas") for torch in find_import_packages(environment, "torch")[:1])
    candidates = (named.get("TRITON_PTXAS_PATH", ""), *of_torch, *_bundled(package, "ptxas"))
    ptxas = _read_first(candidates, Unavailable(f"there is no `ptxas` in `{package}`"))
    return TritonBuild(
        version=_read_version(package, distributions),
        ptxas=ptxas.path,
        ptxas_version=ptxas.release,
        ptxas_archs=_with_blackwell(ptxas.targets, package, named),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ptxas:
    path: str | Unavailable
    release: CudaVersion | Unavailable
    targets: tuple[Arch, ...] | Unavailable


def _bundled(package: Path, name: str) -> Iterator[str]:
    yield from (str(package / folder / name) for folder in _FOLDERS)


def _read_first(candidates: tuple[str, ...], missing: Unavailable) -> _Ptxas:
    """Read the first of the programs that exists: triton passes over a path that names nothing."""
    path = next(filter(os.path.isfile, candidates), None)
    if path is None:
        return _Ptxas(path=missing, release=missing, targets=missing)
    try:
        with open_file(path) as reader:
            label = read_label(parse_elf(reader))
    except (OSError, BinaryError) as exc:
        unreadable = Unavailable(f"`{path}`: {exc}")
        return _Ptxas(path=path, release=unreadable, targets=unreadable)
    return _Ptxas(
        path=path,
        release=label.release or Unavailable(f"`{path}` does not name its release"),
        targets=label.targets or Unavailable(f"`{path}` has no table of targets"),
    )


def _with_blackwell(
    targets: tuple[Arch, ...] | Unavailable, package: Path, named: dict[str, str]
) -> tuple[Arch, ...] | Unavailable:
    """Replace the targets from Blackwell on by those of the second program, in a triton that has one."""
    bundled = tuple(_bundled(package, "ptxas-blackwell"))
    if not any(map(os.path.isfile, bundled)):
        return targets
    second = _read_first((named.get("TRITON_PTXAS_BLACKWELL_PATH", ""), *bundled), Unavailable("")).targets
    if isinstance(targets, Unavailable) or isinstance(second, Unavailable):
        return targets if isinstance(targets, Unavailable) else second
    before = tuple(arch for arch in targets if arch.capability < _FIRST_BLACKWELL)
    return before + tuple(arch for arch in second if arch.capability >= _FIRST_BLACKWELL)


def _read_version(package: Path, distributions: tuple[Distribution, ...] | Unavailable) -> str:
    """Take the version from the metadata, which also tell the commit of nightly builds, or from the package."""
    installed = () if isinstance(distributions, Unavailable) else distributions
    for distribution in installed:
        roots = (distribution.location, distribution.editable_root)
        is_owner = distribution.name in _PROJECTS and str(package.parent) in roots
        if is_owner and isinstance(distribution.version, str):
            return distribution.version
    try:
        return str(read_constants(package / "__init__.py").get("__version__", ""))
    except (OSError, ValueError):
        return ""
