"""torch is a build for the GPUs of another maker beside an NVIDIA GPU."""

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.facts import Distribution, Driver, Environment, Gpu, Host, TorchBuild, TorchFlavour, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._devices import capabilities_of, describe_gpus

_MAKERS = {TorchFlavour.ROCM: "AMD", TorchFlavour.XPU: "Intel"}


@rule("ED208", Severity.ERROR, "torch is a build for the GPUs of another maker")
def torch_for_other_hardware(
    torch: TorchBuild,
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    driver: Driver | None = None,
    host: Host | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    The installed torch is a ROCm build (for AMD) or an XPU build (for Intel), and the GPU is NVIDIA's.
    `torch.cuda.is_available()` is False, and nothing runs on the GPU.

    ## How envdoctor knows
    `torch/version.py` names ROCm (`hip`) or XPU and no CUDA. NVML sees an NVIDIA GPU, or one was named with `--gpu`.

    ## Why it happens
    The environment or the lock was made on a machine with other GPUs, or torch was installed from the wrong index.

    ## How to fix it
    Install the CUDA build of the same release from its own index.

    ## When to ignore it
    When the job uses the other GPU of a machine that has both.
    """
    if torch.flavour not in _MAKERS:
        yield NotApplicable(f"torch is built for {torch.flavour.value}")
        return
    visible = find_visible_gpus(gpus, variables).gpus
    if not visible:
        yield NotApplicable("no GPU is visible")
        return
    capabilities = capabilities_of(visible)
    wish = capabilities and TorchWish(
        installed=torch,
        capability=capabilities[0],
        beside=capabilities[1:],
        environment=environment,
        distributions=distributions,
        driver=driver,
        host=host,
    )
    maker = _MAKERS[torch.flavour]
    yield Finding(
        message=f"torch {torch.version} is built for GPUs of {maker} ({torch.flavour.value}) and cannot use "
        f"{describe_gpus(visible)}",
        evidence=(
            Evidence(source="torch/version.py", value=torch.version),
            *dict.fromkeys(Evidence(source=gpu.source, value=gpu.name) for gpu in visible),
        ),
        remedy=find_torch_remedy(wish, kb) if wish else None,
        gpus=tuple(gpu.index for gpu in visible),
    )
