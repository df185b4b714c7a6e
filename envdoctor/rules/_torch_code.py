"""How torch's own kernels would get to a device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from envdoctor.kb import Coverage, KnowledgeBase
from envdoctor.model.arch import CodeKind, format_arch_list
from envdoctor.model.facts import DeviceCode, LibraryRole, TorchBuild, TorchFlavour
from envdoctor.model.finding import Evidence
from envdoctor.model.versions import PtxIsaVersion
from envdoctor.rules._coverage import Target, add_up, count, cover, short_path


class Way(Enum):
    """How kernels get to a device."""

    NATIVE = "machine code"
    PTX = "PTX that the driver compiles"
    NEWER_PTX = "PTX that is too new for the driver"
    NONE = "none"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchCode:
    """How torch's kernels get to one target, and what shows it."""

    way: Way
    evidence: tuple[Evidence, ...]
    reason: str = ""  # why the way is not known


def not_for_cuda(torch: TorchBuild) -> str:
    """Say why no CUDA architectures are to be looked for; empty when they are."""
    return "" if torch.flavour is TorchFlavour.CUDA else f"torch is built for {torch.flavour.value}, not for CUDA"


def judge_torch(torch: TorchBuild, device_code: tuple[DeviceCode, ...], target: Target, kb: KnowledgeBase) -> TorchCode:
    """Tell how the kernels of *torch* get to *target*.

    The arch list that torch declares is that of its own kernels. Its libraries hold more: code of cuDNN, NCCL and
    MAGMA linked in, for other architectures. So they decide only where the list cannot be read.
    """
    libraries = tuple(map(_own_kernels, filter(lambda code: code.role is LibraryRole.TORCH, device_code)))
    coverage = add_up(cover(code, Target(compute_capability=target.compute_capability), kb) for code in libraries)
    way = _way_of_list(torch, target, kb) or _way_of_containers(coverage)
    if way is Way.NONE and _mostly_native(coverage):
        way = Way.UNKNOWN
    if way is Way.PTX and _is_too_new(torch, libraries, target, kb):
        way = Way.NEWER_PTX
    evidence = tuple(_show(torch, coverage, way, target))
    reason = _why_unknown(torch, libraries, coverage) if way is Way.UNKNOWN else ""
    return TorchCode(way=way, evidence=evidence, reason=reason)


def _own_kernels(code: DeviceCode) -> DeviceCode:
    # What nvcc compiles goes into .nv_fatbin (.nv_fatb on Windows). The containers in .data and .rodata that --deep
    # finds are cuDNN's and cuSPARSELt's: those of torch 1.13.1 have PTX for 8.6, torch itself has none.
    own = tuple(group for group in code.containers if group.section.startswith(".nv_fatb"))
    return replace(code, containers=own)


def _way_of_list(torch: TorchBuild, target: Target, kb: KnowledgeBase) -> Way | None:
    if not isinstance(torch.arch_list, tuple) or not torch.arch_list:
        return None
    kinds = {arch.kind for arch in torch.arch_list if kb.runs_on(arch, target.compute_capability)}
    return Way.NATIVE if CodeKind.SASS in kinds else Way.PTX if CodeKind.PTX in kinds else Way.NONE


def _way_of_containers(coverage: Coverage) -> Way:
    if coverage.native:
        # A few may be cuDNN's or NCCL's; when they are most, torch's own are among them.
        return Way.NATIVE if _mostly_native(coverage) else Way.UNKNOWN
    if coverage.jit:
        return Way.PTX
    return Way.NONE if coverage.none else Way.UNKNOWN


def _mostly_native(coverage: Coverage) -> bool:
    return coverage.native > coverage.jit + coverage.none


def _is_too_new(torch: TorchBuild, libraries: tuple[DeviceCode, ...], target: Target, kb: KnowledgeBase) -> bool:
    isa = min(_ptx_isas(libraries, target, kb), default=None)
    if isa is None and torch.build_cuda_version:
        isa = kb.ptx_isa(torch.build_cuda_version)
    return isa is not None and target.ptx_isa is not None and isa > target.ptx_isa


def _ptx_isas(libraries: tuple[DeviceCode, ...], target: Target, kb: KnowledgeBase) -> Iterator[PtxIsaVersion]:
    for code in libraries:
        for group in code.containers:
            for entry in group.code:
                if entry.ptx_isa_version and kb.runs_on(entry.arch, target.compute_capability):
                    yield entry.ptx_isa_version


def _show(torch: TorchBuild, coverage: Coverage, way: Way, target: Target) -> Iterator[Evidence]:
    yield Evidence(source="torch/version.py", value=torch.version)
    if isinstance(torch.arch_list, tuple) and torch.arch_list:
        yield Evidence(source=torch.arch_list_source, value=format_arch_list(torch.arch_list))
    if way is not Way.NATIVE and count(coverage):
        code = "machine code" if coverage.jit else "code"
        found = f"{coverage.native} of {count(coverage)} kernel containers have {code} for {target.compute_capability}"
        with_ptx = f", {coverage.jit} have PTX for it" if coverage.jit else ""
        yield Evidence(source="libraries of torch", value=found + with_ptx)


def _why_unknown(torch: TorchBuild, libraries: tuple[DeviceCode, ...], coverage: Coverage) -> str:
    reasons = [f"{short_path(code.library)}: {code.unreadable}" for code in libraries if code.unreadable]
    if not isinstance(torch.arch_list, tuple):
        reasons.insert(0, torch.arch_list.reason)
    if count(coverage):
        reasons.append(f"{coverage.native} of {count(coverage)} kernel containers of torch would run")
    return "; ".join(reasons) or "no device code of torch was found"
