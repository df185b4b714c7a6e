"""Several MIG instances are visible to a process, which can use one."""

from envdoctor.model.facts import Gpu, MigInstance, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import Visibility, find_visible_gpus
from envdoctor.rules._alike import health_of, indices


@rule("ED123", Severity.WARNING, "several MIG instances are visible, a process can use one")
def several_mig_instances(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    CUDA gives a process one MIG instance, whatever it is shown: the first, and no whole GPU beside it. The others lie
    idle, two jobs may get the same one, and some torch releases fail with
    `device >= 0 && device < num_gpus INTERNAL ASSERT FAILED`, because NVML counts more devices than CUDA.

    ## How envdoctor knows
    NVML lists the instances, and `CUDA_VISIBLE_DEVICES` does not name exactly one of them. The limit is that of the
    MIG User Guide, "Device Enumeration"; a later driver may lift it.

    ## Why it happens
    The variable is not set, or it holds GPU numbers, which do not count instances.

    ## How to fix it
    Give each process one instance by its UUID: `export CUDA_VISIBLE_DEVICES=MIG-...`. Several instances cannot be
    used together by one process.

    ## When to ignore it
    When any of the instances will do, and nobody else uses the first.
    """
    visible = find_visible_gpus(gpus, variables)
    instances = tuple(instance for gpu in visible.gpus for instance in _instances(gpu))
    if not instances:
        yield NotApplicable("no MIG instance is visible")
        return
    shown = len(visible.entries) if visible.names_mig_instances else len(instances) + _count_whole_gpus(visible)
    if shown == 1:
        return
    chosen = next((one.uuid for one in instances if one.uuid), "")
    yield Finding(
        message=f"{shown} MIG instances or GPUs are visible, but one process can use one instance only",
        evidence=(
            *(Evidence(source="NVML", value=f"{instance.name}: {instance.uuid}") for instance in instances),
            Evidence(source="environment", value=f"CUDA_VISIBLE_DEVICES: {visible.setting or 'not set'}"),
        ),
        remedy=Remedy(
            summary="give each process one instance by its UUID",
            commands=(f"export CUDA_VISIBLE_DEVICES={chosen}" if chosen else "nvidia-smi -L",),
        ),
        gpus=indices(visible.gpus),
    )


def _instances(gpu: Gpu) -> tuple[MigInstance, ...]:
    if gpu.is_named or health_of(gpu).mig_enabled is not True:
        return ()
    instances = health_of(gpu).mig_instances
    return instances if isinstance(instances, tuple) else ()


def _count_whole_gpus(visible: Visibility) -> int:
    return sum(not gpu.is_named and health_of(gpu).mig_enabled is not True for gpu in visible.gpus)
