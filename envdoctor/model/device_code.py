"""Device code as the headers of fatbins tell it; apart from the other facts, so that reading it loads nothing else."""

from dataclasses import dataclass

from envdoctor.model.arch import Arch
from envdoctor.model.versions import PtxIsaVersion


@dataclass(frozen=True, slots=True, order=True)
class KernelCode:
    """One entry of a fatbin container, as its header tells."""

    arch: Arch
    ptx_isa_version: PtxIsaVersion | None = None  # of PTX entries
    is_stub: bool = False  # far smaller than its siblings: kernels that only report failure (research: flash-attention)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerGroup:
    """The containers of one library that hold the same code: what a kernel of theirs can run on."""

    code: tuple[KernelCode, ...]  # in file order
    count: int
    relocatable: bool = False  # `__nv_relfatbin`: input of a device link, not loaded by itself
    section: str = ".nv_fatbin"
    bare: bool = False  # cubins that stand alone, outside of any container
