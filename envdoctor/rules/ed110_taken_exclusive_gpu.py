"""A GPU that admits one process at a time is taken by another."""

from envdoctor.model.facts import ComputeMode, Gpu, GpuHealth, GpuProcess, Host, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, first_missing, indices, judge_alike


@rule("ED110", Severity.ERROR, "a GPU for one process is taken by another")
def taken_exclusive_gpu(gpus: tuple[Gpu, ...], host: Host, variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    The GPU is in compute mode EXCLUSIVE_PROCESS: one process at a time may use it, and one does. torch fails with
    `CUDA error: all CUDA-capable devices are busy or unavailable`.

    ## How envdoctor knows
    NVML tells the compute mode and the processes that hold a context on the GPU. Where an MPS daemon runs, programs
    share the GPU through it, and the rule says nothing.

    ## Why it happens
    Clusters set this mode so that two jobs never share a card. A process of an earlier job was left behind, or two
    jobs were given the same card.

    ## How to fix it
    End the process if it is yours, or use another GPU. An administrator can set the mode to DEFAULT.

    ## When to ignore it
    When the process is going to end before the job starts.
    """
    if isinstance(host.mps_directory, str) and host.mps_directory:
        yield NotApplicable(f"an MPS daemon shares the GPUs: {host.mps_directory}")
        return
    conclusions = tuple(judge_alike(gpus, variables, _state, _conclude))
    if isinstance(host.mps_directory, Unavailable) and any(isinstance(one, Finding) for one in conclusions):
        yield Undecided(f"whether an MPS daemon shares a GPU that is in use: {host.mps_directory.reason}")
        return
    yield from conclusions


def _state(health: GpuHealth) -> tuple[GpuProcess, ...] | Unavailable | None:
    if health.compute_mode is not ComputeMode.EXCLUSIVE_PROCESS:
        return first_missing(health.compute_mode)
    return health.processes or None


def _conclude(alike: tuple[Gpu, ...], processes: tuple[GpuProcess, ...]) -> Finding:
    ids = [str(process.pid) for process in processes]
    return Finding(
        message=f"one process at a time may use {describe(alike)}, and process {', '.join(ids)} does",
        evidence=(
            Evidence(source="NVML", value="nvmlDeviceGetComputeMode: EXCLUSIVE_PROCESS"),
            Evidence(source="NVML", value=f"nvmlDeviceGetComputeRunningProcesses: {', '.join(ids)}"),
        ),
        remedy=Remedy(
            summary="use another GPU, or end the process if it is yours", commands=(f"ps -fp {','.join(ids)}",)
        ),
        gpus=indices(alike),
    )
