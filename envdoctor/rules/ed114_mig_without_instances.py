"""A GPU is in MIG mode, and nobody has cut it into slices."""

from envdoctor.model.facts import Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, first_missing, indices, judge_alike


@rule("ED114", Severity.ERROR, "a GPU in MIG mode has no instances")
def mig_without_instances(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    The GPU is in MIG mode, in which CUDA programs use slices of it, but no slice exists, or none was given to this
    container. CUDA programs do not see the GPU.

    ## How envdoctor knows
    NVML tells that MIG mode is on and lists no MIG device.

    ## Why it happens
    Slices do not survive a reboot, the mode does. Or the container was started without a slice.

    ## How to fix it
    An administrator creates slices (`sudo nvidia-smi mig -cgi 0 -C` makes one of the whole GPU) or turns the mode off.
    A container gets a slice by its UUID: `docker run --gpus '"device=MIG-..."'`.

    ## When to ignore it
    When the job does not use this GPU.
    """
    yield from judge_alike(gpus, variables, _lacks_instances, _conclude)


def _lacks_instances(health: GpuHealth) -> bool | Unavailable | None:
    if health.mig_enabled is not True:
        return first_missing(health.mig_enabled)
    return True if health.mig_instances == () else first_missing(health.mig_instances)


def _conclude(alike: tuple[Gpu, ...], _: bool) -> Finding:  # noqa: FBT001  the only state that is judged
    numbers = ",".join(str(gpu.index) for gpu in alike)
    return Finding(
        message=f"CUDA programs do not see {describe(alike)}: MIG mode is on, and there is no instance",
        evidence=(
            Evidence(source="NVML", value="nvmlDeviceGetMigMode: enabled"),
            Evidence(source="NVML", value="nvmlDeviceGetMigDeviceHandleByIndex: no MIG device"),
        ),
        remedy=Remedy(
            summary="make one instance of the whole GPU, or turn MIG mode off (nvidia-smi -mig 0)",
            commands=(f"sudo nvidia-smi mig -i {numbers} -cgi 0 -C",),
            needs_admin=True,
        ),
        gpus=indices(alike),
    )
