"""An extension of a project with CUDA code was built without it."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import CpuOnlyExtension, Distribution, Environment, Gpu, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._coverage import Installed, short_path
from envdoctor.rules._devices import capabilities_of
from envdoctor.rules._rebuild import rebuild_remedy


@rule("ED209", Severity.WARNING, "an extension was built without its CUDA part")
def extension_without_cuda_part(
    cpu_only_extensions: tuple[CpuOnlyExtension, ...],
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    torch: TorchBuild | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    A package that has CUDA kernels is installed, but it was compiled without them. Installation and import succeed.
    The first call on a CUDA tensor fails with `Not compiled with GPU support`, `nms_impl: implementation for device
    cuda:0 not found` or `No module named 'fused_layer_norm_cuda'`.

    ## How envdoctor knows
    The compiled library has no device code and needs no CUDA library although the project has CUDA sources, or a
    module that a build with CUDA has is missing.

    ## Why it happens
    It was built where no GPU was visible, as in `docker build`, and its `setup.py` asks `torch.cuda.is_available()`.
    Or the variable that forces the CUDA part did not reach the build: `RUN FORCE_CUDA=1 && pip install` sets it for
    nothing, and pip ignores `--global-option`. Or a second, plain install replaced a good one.

    ## How to fix it
    Build it again with `FORCE_CUDA=1` and `TORCH_CUDA_ARCH_LIST` in front of the command, on one line, without build
    isolation and cache.

    ## When to ignore it
    When the job uses the package on the CPU only.
    """
    visible = find_visible_gpus(gpus, variables).gpus
    if not visible:
        yield NotApplicable("no GPU is visible")
        return
    installed = Installed(torch=torch, distributions=distributions, environment=environment)
    for name in sorted({extension.distribution for extension in cpu_only_extensions}):
        parts = sorted((one for one in cpu_only_extensions if one.distribution == name), key=lambda one: one.expected)
        yield Finding(
            message=f"{name} was built without its CUDA part: it lacks {', '.join(part.expected for part in parts)}",
            evidence=tuple(Evidence(source=short_path(part.library), value=part.evidence) for part in parts),
            remedy=_remedy(name, capabilities_of(visible), installed, kb),
            gpus=tuple(gpu.index for gpu in visible),
        )


def _remedy(name: str, capabilities: tuple[ComputeCapability, ...], installed: Installed, kb: KnowledgeBase) -> Remedy:
    if own := kb.own_build(name):
        return Remedy(summary=f"install a build of {name} that has its CUDA part: {own.reason}")
    if not capabilities:
        return Remedy(summary=f"build {name} with FORCE_CUDA=1 and TORCH_CUDA_ARCH_LIST set")
    return rebuild_remedy(name, capabilities, installed, kb)
