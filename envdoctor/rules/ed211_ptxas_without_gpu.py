"""The ptxas that triton starts does not know the GPU."""

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import Arch, CodeKind, ComputeCapability, format_arch_list
from envdoctor.model.facts import Gpu, Toolchain, Toolkit, TritonBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import CudaVersion
from envdoctor.rules._devices import Devices, judge_devices

_SHOWN_TARGETS = 4
# From here on triton starts another program, ptxas-blackwell, which has a variable of its own.
_BLACKWELL = ComputeCapability(10, 0)


@rule("ED211", Severity.WARNING, "triton's ptxas does not know this GPU")
def ptxas_without_gpu(
    triton: TritonBuild,
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    toolchain: Toolchain | None = None,
) -> Conclusions:
    """
    ## What it means
    triton compiles its kernels with NVIDIA's assembler `ptxas`, and the one that it would start here is too old for the
    GPU. `torch.compile` and packages with Triton kernels fail with
    `ptxas fatal : Value 'sm_120' is not defined for option 'gpu-name'`. The rest of torch is not concerned, which is
    why this is a warning.

    ## How envdoctor knows
    It reads the targets that the program accepts from its bytes: the one that `TRITON_PTXAS_PATH` names, or the one
    inside triton; from 10.0 on `ptxas-blackwell`, where there is one.

    ## Why it happens
    Each triton brings the ptxas of its time. A torch with code for a new GPU may be installed beside an older triton.

    ## How to fix it
    Install the triton that belongs to a torch with code for the GPU, or name the ptxas of a newer CUDA toolkit in
    `TRITON_PTXAS_PATH` (and `TRITON_PTXAS_BLACKWELL_PATH`).

    ## When to ignore it
    When the job uses neither `torch.compile` nor Triton kernels.
    """
    if not isinstance(triton.ptxas_archs, tuple):
        yield Undecided(f"which GPUs triton's ptxas knows: {triton.ptxas_archs.reason}")
        return
    targets = tuple(arch for arch in triton.ptxas_archs if arch.kind is CodeKind.SASS)

    def judge(devices: Devices) -> Conclusions:
        if kb.unmet_needs("triton", triton.version, devices.compute_capability):
            yield NotApplicable("triton itself needs a newer GPU: see ED213")
            return
        if any(arch.capability == devices.compute_capability for arch in targets):
            return
        yield Finding(
            message=f"the ptxas of triton {triton.version} does not know {devices}: torch.compile fails there",
            evidence=(*devices.evidence, *_describe_ptxas(triton, targets)),
            remedy=_remedy(devices, toolchain, kb),
            gpus=devices.indices,
        )

    yield from judge_devices(gpus, variables, judge)


def _describe_ptxas(triton: TritonBuild, targets: tuple[Arch, ...]) -> Iterator[Evidence]:
    release = f"CUDA {triton.ptxas_version}, " if isinstance(triton.ptxas_version, CudaVersion) else ""
    newest = format_arch_list(tuple(sorted(targets))[-_SHOWN_TARGETS:])
    source = triton.ptxas if isinstance(triton.ptxas, str) else "ptxas"
    yield Evidence(source=source, value=f"{release}{len(targets)} targets, the newest are {newest}")


def _remedy(devices: Devices, toolchain: Toolchain | None, kb: KnowledgeBase) -> Remedy:
    first = kb.first_toolkit(devices.compute_capability)
    toolkit = _find_toolkit(toolchain, first) if first else None
    if toolkit is None:
        wanted = f"CUDA {first}" if first else "a newer CUDA"
        return Remedy(
            summary=f"install the triton of a torch that has code for {devices.compute_capability}, or name the ptxas "
            f"of {wanted} or newer in TRITON_PTXAS_PATH"
        )
    ptxas = shlex.quote(str(PurePosixPath(toolkit.nvcc).parent / "ptxas"))
    commands = [f"export TRITON_PTXAS_PATH={ptxas}"]
    if devices.compute_capability >= _BLACKWELL:
        commands.append(f"export TRITON_PTXAS_BLACKWELL_PATH={ptxas}")
    return Remedy(summary=f"let triton start the ptxas of CUDA {toolkit.toolkit_version}", commands=tuple(commands))


def _find_toolkit(toolchain: Toolchain | None, first: CudaVersion) -> Toolkit | None:
    """Return a toolkit of this machine whose ptxas knows the device."""
    for toolkit in toolchain.toolkits if toolchain else ():
        if isinstance(toolkit.toolkit_version, CudaVersion) and toolkit.toolkit_version >= first:
            return toolkit
    return None
