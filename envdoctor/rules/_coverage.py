"""How the kernel containers of extensions fare on a device: natively, through PTX, or not at all."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from envdoctor.kb import Coverage, KnowledgeBase
from envdoctor.kb.torch_choice import COMPANIONS
from envdoctor.model import bitsandbytes
from envdoctor.model.arch import Arch, CodeKind, ComputeCapability, format_arch_list
from envdoctor.model.device_code import ContainerGroup, KernelCode
from envdoctor.model.facts import (
    DeviceCode,
    Distribution,
    Driver,
    Environment,
    Host,
    LibraryRole,
    TorchBuild,
    Unavailable,
    Variable,
)
from envdoctor.model.finding import Evidence
from envdoctor.model.versions import CudaVersion, DriverRelease, PtxIsaVersion
from envdoctor.rules._machine import LIBCUDA, winning_library

# What tells variants of one library apart, of which a process loads one: the CUDA version that it was built with
# (bitsandbytes: libbitsandbytes_cuda118.so), with or without cuBLASLt, or the architecture (sgl-kernel: sm90/, sm100/).
_VARIANT = re.compile(r"(?<![A-Za-z])(sm|cuda|cu)_?(\d{2,3})[af]?(?:_nocublaslt)?(?=[/._-])")

_SHOWN_LIBRARIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device, and the newest PTX that its driver compiles (None: not known, taken as any)."""

    compute_capability: ComputeCapability
    ptx_isa: PtxIsaVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is installed, as far as it is known."""

    torch: TorchBuild | None
    distributions: tuple[Distribution, ...]
    environment: Environment | None = None
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCoverage:
    """How one library fares on a target."""

    code: DeviceCode
    coverage: Coverage
    other_variant: DeviceCode | None = None  # has machine code, but is for another CUDA version than that in use


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionCoverage:
    """How the libraries of one distribution fare on a target; of variants of one library, the one that fares best."""

    name: str  # of the distribution; the folder for libraries that none owns
    libraries: tuple[LibraryCoverage, ...]
    unreadable: tuple[DeviceCode, ...]
    chosen_by: str = ""  # the variable, with its value, that says which variant is loaded

    @property
    def total(self) -> Coverage:
        """The sums over the libraries."""
        return add_up(one.coverage for one in self.libraries)

    @property
    def is_compiled_against_torch(self) -> bool:
        """Whether torch's build helper decides what it is compiled for."""
        needed = (name for one in self.libraries for name in one.code.needed)
        return any(name.startswith(("libtorch", "libc10")) for name in needed)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the libraries that count were built for, and why they count."""
        chosen = (Evidence(source="environment", value=self.chosen_by),) if self.chosen_by else ()
        return (*chosen, *describe_libraries(self.libraries))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variants:
    """Which variants of a library are loaded here, and which otherwise."""

    loaded: Callable[[str], bool]
    otherwise: Callable[[str], bool] = lambda _: True
    chosen_by: str = ""


def newest_ptx_isa(driver: Driver | None, host: Host | None, kb: KnowledgeBase) -> PtxIsaVersion | None:
    """Return the newest PTX that the driver compiles: that of its own CUDA version. None when that is not known."""
    if driver is None:
        return None
    libcuda = winning_library(host, LIBCUDA) if host and driver.source != "--driver" else None
    if libcuda and libcuda.is_compat:
        return _ptx_isa_of(libcuda.release, kb)  # the compiler comes with libcuda, not with the kernel module
    if isinstance(driver.cuda_version, CudaVersion):
        return kb.ptx_isa(driver.cuda_version)
    return _ptx_isa_of(driver.release_version, kb)


def _ptx_isa_of(release: DriverRelease | Unavailable, kb: KnowledgeBase) -> PtxIsaVersion | None:
    cuda = kb.newest_cuda(release) if isinstance(release, DriverRelease) else None
    return kb.ptx_isa(cuda) if cuda else None


def add_up(parts: Iterable[Coverage]) -> Coverage:
    """Return the sum of several counts."""
    listed = tuple(parts)
    return Coverage(
        native=sum(part.native for part in listed),
        jit=sum(part.jit for part in listed),
        none=sum(part.none for part in listed),
    )


def count(coverage: Coverage) -> int:
    """Return how many kernel containers there are."""
    return coverage.native + coverage.jit + coverage.none


def cover(code: DeviceCode, target: Target, kb: KnowledgeBase) -> Coverage:
    """Count how the containers of one library fare, under the driver of *target*."""
    coverage = add_up(_cover_group(group, target, kb) for group in code.containers)
    if coverage.native or coverage.jit or not _can_be_linked_anew(code, target, kb):
        return coverage
    return Coverage(native=0, jit=coverage.none, none=0)


def why_unsettled(
    archs: Iterable[Arch],
    device: ComputeCapability,
    torch: TorchBuild | None,
    driver: Driver | None,
    kb: KnowledgeBase,
) -> str:
    """Say why code that does not run with older CUDA may run with that of the build or the driver; empty when not."""
    versions = (torch and torch.build_cuda_version, driver and driver.cuda_version)
    newest = max((one for one in versions if isinstance(one, CudaVersion)), default=None)
    is_open = newest is not None and any(kb.is_unsettled(arch, device, newest) for arch in archs)
    return kb.architectures[device].note if is_open else ""


def cover_extensions(
    device_code: tuple[DeviceCode, ...], installed: Installed, target: Target, kb: KnowledgeBase
) -> Iterator[DistributionCoverage]:
    """Yield how every distribution with CUDA kernels fares on *target*; torch and NVIDIA's own are not extensions.

    Those that another rule speaks about are left out: packages for newer GPUs, and what is replaced with torch.
    """
    extensions = sorted(
        (code for code in device_code if code.role is LibraryRole.EXTENSION), key=lambda code: code.library
    )
    versions = {one.name: one.version for one in reversed(installed.distributions)}
    for name, owned in _group_by(_owner, extensions).items():
        if _is_for_newer_gpus(name, versions.get(name), target, kb) or _goes_with_torch(name, installed, target, kb):
            continue
        variants = _choose_variants(name, versions.get(name), extensions, installed)
        if variants is None:
            continue
        groups = _group_by(_without_variant, owned).values()
        libraries = tuple(_best_variant(group, variants, target, kb) for group in groups)
        with_kernels = tuple(
            one for one in libraries if count(one.coverage) and not _is_named_for_others(one.code, target, kb)
        )
        unreadable = tuple(code for code in owned if code.unreadable)
        if with_kernels or unreadable:
            yield DistributionCoverage(
                name=name, libraries=with_kernels, unreadable=unreadable, chosen_by=variants.chosen_by
            )


def _choose_variants(
    name: str, version: str | Unavailable | None, extensions: list[DeviceCode], installed: Installed
) -> _Variants | None:
    """Say which variants of its libraries a distribution loads; None where there is none that it would load (ED216)."""
    torch, variables = installed.torch, installed.variables
    own = [code.library for code in extensions if code.distribution == name]
    choice = bitsandbytes.choose(own, torch, version, variables) if name == bitsandbytes.DISTRIBUTION else None
    if choice is None:
        return _Variants(loaded=lambda library: _is_built_for(library, torch))
    if choice.loaded is None:
        return None
    default = bitsandbytes.choose(own, torch, version, ())
    if not choice.by_variable or default is None:
        return _Variants(loaded=choice.loads)
    return _Variants(loaded=choice.loads, otherwise=default.loads, chosen_by=f"{bitsandbytes.VARIABLE}={choice.wanted}")


def without_special_code(library: LibraryCoverage, target: Target, kb: KnowledgeBase) -> Coverage:
    """Count again without the containers that were written for other GPUs and have others beside them.

    Those hold code for one exact GPU or family only (sm_90a), or for older GPUs without PTX: whoever builds for GPUs
    by default gets PTX (cuBLAS, linked statically, has containers for each generation).
    """
    containers = tuple(group for group in library.code.containers if not _is_for_others(group, target, kb))
    return cover(replace(library.code, containers=containers), target, kb)


def describe_libraries(libraries: tuple[LibraryCoverage, ...]) -> tuple[Evidence, ...]:
    """Say what libraries were built for."""
    return first_few(
        [Evidence(source=short_path(one.code.library), value=describe_archs(one.code)) for one in libraries]
    )


def first_few(evidence: list[Evidence]) -> tuple[Evidence, ...]:
    """Leave it at the first of what is said about many libraries."""
    more = len(evidence) - _SHOWN_LIBRARIES
    shown = evidence[:_SHOWN_LIBRARIES]
    return (
        (*shown, Evidence(source="device code", value=f"likewise in {more} more libraries"))
        if more > 0
        else tuple(shown)
    )


def describe_archs(code: DeviceCode) -> str:
    """List the architectures that a library holds code for, machine code first, with the number of containers."""
    archs = {entry.arch for group in code.containers for entry in group.code}
    count = sum(group.count for group in code.containers)
    in_order = tuple(sorted(archs, key=lambda arch: (arch.kind is not CodeKind.SASS, arch)))
    return f"{count} kernel container{'s' if count > 1 else ''}: {format_arch_list(in_order)}"


def short_path(library: str) -> str:
    """Leave away what comes before the packages of an environment."""
    return re.split(r"/(?:site|dist)-packages/", library)[-1]


def _cover_group(group: ContainerGroup, target: Target, kb: KnowledgeBase) -> Coverage:
    coverage = kb.coverage((group,), target.compute_capability)
    if not coverage.jit or any(_compiles(entry, target, kb) for entry in group.code):
        return coverage
    return Coverage(native=coverage.native, jit=0, none=coverage.none + coverage.jit)


def _compiles(entry: KernelCode, target: Target, kb: KnowledgeBase) -> bool:
    if entry.arch.kind is not CodeKind.PTX or not kb.runs_on(entry.arch, target.compute_capability):
        return False
    return target.ptx_isa is None or entry.ptx_isa_version is None or entry.ptx_isa_version <= target.ptx_isa


def _is_for_others(group: ContainerGroup, target: Target, kb: KnowledgeBase) -> bool:
    archs = [entry.arch for entry in group.code]
    if any(kb.runs_on(arch, target.compute_capability) for arch in archs):
        return False
    is_special = all(arch.suffix for arch in archs)
    is_older = all(arch.kind is CodeKind.SASS and arch.capability < target.compute_capability for arch in archs)
    return is_special or is_older


def _is_named_for_others(code: DeviceCode, target: Target, kb: KnowledgeBase) -> bool:
    """Whether a library has code for one exact GPU alone and says so: torchao's `_C_cutlass_90a.abi3.so`."""
    archs = {entry.arch for group in code.containers for entry in group.code}
    name = code.library.rpartition("/")[2]
    return all(
        arch.suffix and str(arch).partition("_")[2] in name and not kb.runs_on(arch, target.compute_capability)
        for arch in archs
    )


def _is_for_newer_gpus(name: str, version: str | Unavailable | None, target: Target, kb: KnowledgeBase) -> bool:
    needs = kb.unmet_needs(name, version, target.compute_capability) if isinstance(version, str) else ()
    return any(not need.feature for need in needs)


def _goes_with_torch(name: str, installed: Installed, target: Target, kb: KnowledgeBase) -> bool:
    arch_list = installed.torch.arch_list if installed.torch else ()
    if name not in COMPANIONS or not isinstance(arch_list, tuple) or not arch_list:
        return False
    return not any(arch.kind is CodeKind.SASS and kb.runs_on(arch, target.compute_capability) for arch in arch_list)


def _can_be_linked_anew(code: DeviceCode, target: Target, kb: KnowledgeBase) -> bool:
    # Where no linked cubin fits the device, the driver compiles the relocatable PTX and links that: NVCC documentation,
    # "JIT Linking Support". bitsandbytes carries its PTX only so.
    entries = (entry for group in code.containers if group.relocatable for entry in group.code)
    return any(_compiles(entry, target, kb) for entry in entries)


def _best_variant(codes: list[DeviceCode], variants: _Variants, target: Target, kb: KnowledgeBase) -> LibraryCoverage:
    covered = [LibraryCoverage(code=code, coverage=cover(code, target, kb)) for code in codes]
    candidates = [one for one in covered if variants.loaded(one.code.library)] or covered
    best = max(candidates, key=_fitness)
    others = [one for one in covered if variants.otherwise(one.code.library)]
    other = max(others, key=_fitness, default=best)
    if best.coverage.native or not other.coverage.native:
        return best
    return replace(best, other_variant=other.code)


def _fitness(library: LibraryCoverage) -> tuple[int, int]:
    return library.coverage.native, library.coverage.jit


def _is_built_for(library: str, torch: TorchBuild | None) -> bool:
    cuda = torch.build_cuda_version if torch else None
    marks = [digits for kind, digits in _VARIANT.findall(library.rpartition("/")[2]) if kind != "sm"]
    return cuda is not None and any(digits in {f"{cuda.major}{cuda.minor}", str(cuda.major)} for digits in marks)


def _owner(code: DeviceCode) -> str:
    return code.distribution or code.library.rpartition("/")[0]


def _without_variant(code: DeviceCode) -> str:
    return _VARIANT.sub(r"\1*", short_path(code.library))


def _group_by(key: Callable[[DeviceCode], str], codes: Iterable[DeviceCode]) -> dict[str, list[DeviceCode]]:
    groups: dict[str, list[DeviceCode]] = {}
    for code in codes:
        groups.setdefault(key(code), []).append(code)
    return groups
