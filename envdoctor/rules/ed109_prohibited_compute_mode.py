"""The compute mode of a GPU forbids every CUDA program."""

from envdoctor.model.facts import ComputeMode, Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, indices, judge_alike


@rule("ED109", Severity.ERROR, "the compute mode of a GPU forbids CUDA programs")
def prohibited_compute_mode(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    The GPU is in compute mode PROHIBITED: no process may create a CUDA context on it. torch fails with
    `CUDA error: all CUDA-capable devices are busy or unavailable`.

    ## How envdoctor knows
    NVML tells the compute mode (`nvmlDeviceGetComputeMode`).

    ## Why it happens
    An administrator set it, often to keep jobs off a card that is sick or drives a display.

    ## How to fix it
    Use another GPU, or ask an administrator for `nvidia-smi -c DEFAULT`.

    ## When to ignore it
    When the job does not use this GPU.
    """
    yield from judge_alike(gpus, variables, _state, _conclude)


def _state(health: GpuHealth) -> ComputeMode | Unavailable | None:
    is_fine = health.compute_mode in {ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS}
    return None if is_fine else health.compute_mode


def _conclude(alike: tuple[Gpu, ...], mode: ComputeMode) -> Finding:
    return Finding(
        message=f"no CUDA program may use {describe(alike)}: the compute mode is PROHIBITED",
        evidence=(Evidence(source="NVML", value=f"nvmlDeviceGetComputeMode: {mode.value}"),),
        remedy=Remedy(
            summary="use another GPU, or have the compute mode set back",
            commands=tuple(f"sudo nvidia-smi -i {gpu.index} -c DEFAULT" for gpu in alike),
            needs_admin=True,
        ),
        gpus=indices(alike),
    )
