"""What messages, evidence and remedies say about failures of the dynamic loader, by their cause."""

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envdoctor.model import bitsandbytes
from envdoctor.model.facts import Environment, TorchFlavour
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy
from envdoctor.model.loading import FailedLoad, LoadFailure, LoadFault, LoadWay
from envdoctor.model.rule import Conclusions
from envdoctor.model.wording import enumerate_all
from envdoctor.rules import _load_remedies as remedies
from envdoctor.rules._coverage import short_path
from envdoctor.rules._load_causes import (
    Cause,
    find_override,
    is_cuda_library,
    is_torch_library,
    python_of,
    wants_executable_stack,
)
from envdoctor.rules._load_origin import describe_origin, find_origin, find_origin_of_symbols
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_verdicts import BrokenPackage, Standing, is_cut_off, judge_packages

_SHOWN_LIBRARIES = 3
_SHOWN_SYMBOLS = 3
_FAULTS_OF_SYSTEMS = frozenset({Cause.OLD_SYSTEM, Cause.SYSTEM_LIBRARY})
_CUDA_MAJOR = re.compile(r"libcudart\.so\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Libraries of one distribution that the loader refuses for one cause, or `import torch` itself."""

    who: str  # in a message
    distribution: str
    failures: tuple[LoadFailure, ...]  # the first is told in full
    library: str  # of the first, by path
    needs_torch: bool
    scene: Scene
    is_cached: bool = False  # by torch, which compiled it

    @property
    def first(self) -> LoadFailure:
        """The failure that is told."""
        return self.failures[0]

    @property
    def names(self) -> str:
        """What is missing, each once."""
        return enumerate_all(dict.fromkeys(f"`{failure.name}`" for failure in self.failures))

    @property
    def torch(self) -> str:
        """The installed torch in a message."""
        torch = self.scene.torch
        return f"torch {torch.version}" if torch else "the installed torch"


def tell(cause: Cause, trouble: Trouble) -> str:
    """Say in one clause what is wrong."""
    return _CLAUSES[cause](trouble)


def find_remedy(cause: Cause, trouble: Trouble) -> Remedy | None:
    """Say what to do; None when no way out is known."""
    name, failure, scene = trouble.distribution, trouble.first, trouble.scene
    if cause is Cause.OVERRIDDEN:
        override = find_override(failure, scene.loader)
        return remedies.leave_out(override.taken, override.right, scene) if override else None
    if wants_executable_stack(failure):
        return remedies.clear_executable_stack(failure.file, scene)
    if trouble.is_cached and (cause not in _FAULTS_OF_SYSTEMS or failure.name.startswith("GLIBC_")):
        return remedies.compile_anew(trouble.library)
    if cause is Cause.DAMAGED:
        return remedies.bring_back(name, trouble.library, scene)
    if cause is Cause.OLD_SYSTEM:
        return remedies.get_newer_system(name, failure, scene)
    if cause is Cause.SYSTEM_LIBRARY:
        return remedies.install_system_libraries(name, tuple(each.name for each in trouble.failures), scene)
    if cause is Cause.OTHER_PYTHON:
        return remedies.get_python(name, failure, scene)
    return _find_build(cause, trouble)


def _find_build(cause: Cause, trouble: Trouble) -> Remedy:
    """Say which build to install, or how to make one."""
    name, failure, scene = trouble.distribution, trouble.first, trouble.scene
    is_for_torch = trouble.needs_torch or cause is Cause.OTHER_TORCH
    if is_for_torch and scene.lacks_torch:
        return Remedy(summary=f"install the torch that {trouble.who} was built for")
    renewed = None
    if cause is Cause.CUDA_OR_TORCH and failure.fault is not LoadFault.LIBRARY:
        renewed = remedies.renew_nvidia_wheel(failure, scene)
    if not trouble.needs_torch:
        return renewed or remedies.fit_to_cuda(name, cause, scene)
    return renewed or remedies.fit_to_torch(name, trouble.library, scene)


def conclude_cause(cause: Cause, scene: Scene) -> Conclusions:
    """Make a finding for each distribution whose import certainly fails, and of which this is the first cause."""
    if not scene.loader.asked:
        yield NotApplicable("no library of the environment is opened by Python")
        return
    for package in judge_packages(scene):
        if package.standing is Standing.CERTAIN and package.cause is cause:
            yield conclude(package, scene)


def conclude_standing(standing: Standing, scene: Scene, suffix: str) -> Iterator[Finding]:
    """Make a finding for each distribution of which nothing worse follows; *suffix* ends its message."""
    for package in judge_packages(scene):
        if package.standing is standing:
            yield conclude(package, scene, suffix)


def conclude(package: BrokenPackage, scene: Scene, suffix: str = "") -> Finding:
    """Make one finding of failures that belong together; *suffix* ends its message."""
    trouble = _trouble_of(package, scene)
    return Finding(
        message=tell(package.cause, trouble) + suffix,
        evidence=(*_describe_loads(package), *describe_cause(package.cause, trouble)),
        remedy=find_remedy(package.cause, trouble),
    )


def _trouble_of(package: BrokenPackage, scene: Scene) -> Trouble:
    failed = package.told[0].failed
    return Trouble(
        who=_name(failed, scene),
        distribution=failed.distribution,
        failures=tuple(load.failed.failure for load in package.told),
        library=failed.library,
        needs_torch=failed.needs_torch,
        scene=scene,
        is_cached=failed.way is LoadWay.CACHED,
    )


def _name(failed: FailedLoad, scene: Scene) -> str:
    if failed.way is LoadWay.CACHED:
        return f"what torch keeps compiled of `{failed.module}`"
    version = scene.version_of(failed.distribution)
    return f"{failed.distribution} {version}".strip() or f"`{short_path(failed.library)}`"


def describe_cause(cause: Cause, trouble: Trouble) -> Iterator[Evidence]:
    """Say what shows the cause."""
    failure, scene = trouble.first, trouble.scene
    if cause is Cause.OVERRIDDEN:
        yield from _describe_override(failure, scene)
        return
    if forced := scene.forced_variant(trouble.distribution):
        yield Evidence(source="environment", value=f"{bitsandbytes.VARIABLE}={forced}")
    if failure.fault is LoadFault.SYMBOL:
        yield from _describe_symbols(failure)
    if cause in {Cause.OTHER_TORCH, Cause.OTHER_ABI, Cause.CUDA_OR_TORCH}:
        yield from describe_origin(trouble.distribution, failure, scene)
    if failure.provider:
        provider = failure.provider
        folder = f" {provider.folder}" if provider.folder else ""
        yield Evidence(
            source=posixpath.basename(provider.name), value=f"is {provider.path} ({provider.found_through}{folder})"
        )
    if failure.relatives:
        yield Evidence(source="in other versions", value=", ".join(failure.relatives[:_SHOWN_LIBRARIES]))
    if failure.holders:
        yield Evidence(source="has it", value=", ".join(failure.holders[:_SHOWN_LIBRARIES]))


# --- evidence ----------------------------------------------------------------------------------------------------


def _describe_loads(package: BrokenPackage) -> Iterator[Evidence]:
    loads = (*package.told, *package.others)
    for load in loads[:_SHOWN_LIBRARIES]:
        library, words = load.failed.library, load.failed.failure.words
        # Most of the loader's messages name the library themselves.
        yield Evidence(source="dynamic loader" if library in words else short_path(library), value=words)
    if (more := len(loads) - _SHOWN_LIBRARIES) > 0:
        libraries = "library" if more == 1 else "libraries"
        yield Evidence(source="dynamic loader", value=f"refuses {more} more {libraries} of it")
    if chain := next((load.failed.import_chain for load in package.told if load.failed.import_chain), ()):
        yield Evidence(source="imported by", value=", ".join(chain))
    if package.told[0].failed.way is LoadWay.CACHED:
        yield Evidence(source="imported by", value="torch.utils.cpp_extension.load, which compiled it for this torch")
    if seen := next((load.seen for load in package.told if load.seen), ""):
        yield Evidence(source="what is seen instead", value=seen)


def _describe_symbols(failure: LoadFailure) -> Iterator[Evidence]:
    if failure.demangled:
        yield Evidence(source="missing symbol", value="; ".join(failure.demangled[:_SHOWN_SYMBOLS]))
    if len(failure.undefined) > 1:
        yield Evidence(source="missing symbols", value=f"{len(failure.undefined)} of {short_path(failure.file)} in all")
    if failure.other_abi:
        yield Evidence(source="torch has instead", value=failure.other_abi[0])


def _describe_override(failure: LoadFailure, scene: Scene) -> Iterator[Evidence]:
    override = find_override(failure, scene.loader)
    if override:
        taken = override.taken
        yield Evidence(source=f"taken through {taken.found_through}", value=taken.path)
        yield Evidence(source="would have been right", value=override.right)


# --- torch itself ------------------------------------------------------------------------------------------------

_MKL_SYMBOL = "iJIT_"  # of Intel's profiler, in libmkl until 2024.0


def tell_of_torch(cause: Cause, trouble: Trouble) -> str:
    """Say in one clause what torch lacks."""
    failure = trouble.first
    if failure.fault is LoadFault.LIBRARY:
        return f"{trouble.names} is not there"
    if failure.fault is LoadFault.SYMBOL:
        return f"no library has {trouble.names}, which `{short_path(failure.file)}` needs"
    return tell(cause, trouble)


def remedy_for_torch(cause: Cause, trouble: Trouble) -> Remedy | None:
    """Say how torch can be loaded again."""
    failure, scene = trouble.first, trouble.scene
    if failure.name.startswith(_MKL_SYMBOL):
        return remedies.pin_mkl(scene)
    if wants_executable_stack(failure):
        return remedies.clear_executable_stack(failure.file, scene)
    if cause is Cause.DRIVER:
        return Remedy(
            summary="run it where the NVIDIA driver is: the library comes with the driver, and not with torch"
        )
    if cause in {Cause.OLD_SYSTEM, Cause.SYSTEM_LIBRARY, Cause.OTHER_PYTHON}:
        return find_remedy(cause, trouble)
    return remedies.renew_nvidia_wheel(failure, scene) or remedies.renew_torch(scene)


# --- clauses -----------------------------------------------------------------------------------------------------


def _tell_override(trouble: Trouble) -> str:
    override = find_override(trouble.first, trouble.scene.loader)
    assert override is not None  # it is what makes the cause
    taken = override.taken
    name = posixpath.basename(taken.name)
    return f"{trouble.who} cannot be loaded: {taken.found_through} brings another `{name}`"


def _tell_damage(trouble: Trouble) -> str:
    failure = trouble.first
    if failure.fault is LoadFault.LIBRARY:
        return f"a part of {trouble.who} is gone: {trouble.names}"
    file = short_path(failure.file)
    if trouble.scene.is_lfs_pointer(failure.file):
        return f"`{file}` is a pointer of Git LFS, not the library"
    if is_cut_off(failure.words):
        return f"`{file}` is cut off"
    if "cannot open" in failure.words:
        return f"`{file}` cannot be opened"
    return f"`{file}` is damaged, or no library for this machine"


def _tell_other_abi(trouble: Trouble) -> str:
    built, there = ("new", "old") if is_new_abi(trouble.first.name) else ("old", "new")
    return f"{trouble.who} was built for the {built} C++11 ABI, {trouble.torch} has the {there} one"


def _tell_other_torch(trouble: Trouble) -> str:
    origin = find_origin(trouble.distribution, trouble.scene)
    releases = find_origin_of_symbols(trouble.first, trouble.scene)
    if trouble.scene.lacks_torch:
        return f"{trouble.who} needs torch {origin or releases}".rstrip() + ", which is not installed"
    if origin:
        return f"{trouble.who} was built for torch {origin}, and not for {trouble.torch}"
    which = f": what it lacks is of torch {releases}" if releases else ""
    return f"{trouble.who} was built for another torch than {trouble.torch}{which}"


def _tell_cuda_or_torch(trouble: Trouble) -> str:
    failure, torch = trouble.first, trouble.scene.torch
    if failure.fault is not LoadFault.LIBRARY:
        return f"{trouble.who} needs `{failure.name}`, and the library of NVIDIA that should have it does not"
    if is_torch_library(failure.name):
        if torch is None:
            return f"{trouble.who} needs torch ({trouble.names}), which is not installed"
        if torch.flavour is TorchFlavour.CPU and re.search(r"cuda|hip", failure.name):
            return f"{trouble.who} needs the CUDA part of torch ({trouble.names}); {trouble.torch} is a CPU build"
        return f"{trouble.who} needs {trouble.names}, which {trouble.torch} does not have"
    match = next(filter(None, (_CUDA_MAJOR.match(each.name) for each in trouble.failures)), None)
    if match and torch and torch.build_cuda_version and torch.build_cuda_version.major != int(match[1]):
        of_torch = f"{trouble.torch} has CUDA {torch.build_cuda_version}"
        return f"{trouble.who} needs CUDA {match[1]} ({trouble.names}), which is not there; {of_torch}"
    whose = " of CUDA" if is_cuda_library(failure.name) else ""
    are = "are" if len({each.name for each in trouble.failures}) > 1 else "is"
    return f"{trouble.who} needs {trouble.names}{whose}, which {are} not there"


def _tell_old_system(trouble: Trouble) -> str:
    provider = trouble.first.provider
    which = f"; `{provider.name}` is older" if provider else ""
    if trouble.first.name.startswith("GLIBC_") and trouble.scene.loader.glibc:
        which = f"; the glibc of this system is {trouble.scene.loader.glibc}"
    return f"{trouble.who} needs {trouble.names}{which}"


def _tell_other_python(trouble: Trouble) -> str:
    version = python_of(trouble.first.name)
    here = name_python(trouble.scene.environment)
    if not version:
        return f"{trouble.who} was built for another Python than {here}"
    if here == f"Python {version}":
        return f"{trouble.who} needs {trouble.names}, which the loader does not find"
    return f"{trouble.who} was built for Python {version}; this is {here}"


def _tell_system_library(trouble: Trouble) -> str:
    return f"{trouble.who} needs {trouble.names}, which this system does not have"


def _tell_other(trouble: Trouble) -> str:
    failure = trouble.first
    if wants_executable_stack(failure):
        glibc = trouble.scene.loader.glibc or "2.41"
        return f"`{short_path(failure.file)}` asks for an executable stack, which glibc {glibc} does not give"
    if failure.fault is LoadFault.SYMBOL:
        return f"{trouble.who} cannot be loaded: no library defines `{failure.name}`"
    if failure.provider:
        return f"{trouble.who} cannot be loaded: `{failure.provider.name}` has no version `{failure.name}`"
    return f"{trouble.who} cannot be loaded: {failure.words}"


def is_new_abi(symbol: str) -> bool:
    """Tell whether a mangled name is of the C++11 ABI of libstdc++."""
    return "__cxx11" in symbol or "B5cxx11" in symbol


def name_python(environment: Environment | None) -> str:
    """Write the version of the examined interpreter."""
    version = environment.python_version if environment else None
    return f"Python {'.'.join(map(str, version[:2]))}" if isinstance(version, tuple) else "this Python"


_CLAUSES: dict[Cause, Callable[[Trouble], str]] = {
    Cause.OVERRIDDEN: _tell_override,
    Cause.DAMAGED: _tell_damage,
    Cause.OTHER_ABI: _tell_other_abi,
    Cause.OTHER_TORCH: _tell_other_torch,
    Cause.OTHER_PYTHON: _tell_other_python,
    Cause.CUDA_OR_TORCH: _tell_cuda_or_torch,
    Cause.DRIVER: _tell_system_library,
    Cause.OLD_SYSTEM: _tell_old_system,
    Cause.SYSTEM_LIBRARY: _tell_system_library,
    Cause.OTHER: _tell_other,
}
