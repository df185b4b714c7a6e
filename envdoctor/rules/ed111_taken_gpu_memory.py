"""Other processes hold most of a GPU's memory."""

from envdoctor.model.facts import Gpu, GpuHealth, GpuProcess, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, first_missing, health_of, indices, judge_alike

# A desktop holds 1 to 3 GiB, an idle CUDA process half a GiB: neither is half of a card for training.
_WANTED_SHARE = 0.5


@rule("ED111", Severity.WARNING, "most of a GPU's memory is taken")
def taken_gpu_memory(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    Less than half of the GPU's memory is free before the job starts. What fits on an empty card may end here with
    `CUDA out of memory`, and the other process slows the job down.

    ## How envdoctor knows
    NVML tells total and free memory, and the processes that hold a context. In a container the processes of others
    are often not visible, their memory is. GPUs in MIG mode are left out: their slices have memory of their own.

    ## Why it happens
    Another job uses the card, a notebook still holds its model, or a crashed run left a process behind.

    ## How to fix it
    End the process if it is yours, or choose another GPU with `CUDA_VISIBLE_DEVICES`.

    ## When to ignore it
    When the job is known to fit into what is free. `envdoctor` does not know how much it needs.
    """
    yield from judge_alike(gpus, variables, _is_taken, _conclude)


def _is_taken(health: GpuHealth) -> bool | Unavailable | None:
    total, free = health.total_memory, health.free_memory
    if health.mig_enabled is True:
        return None
    if isinstance(total, Unavailable) or isinstance(free, Unavailable):
        return first_missing(total, free)
    return True if free < total * _WANTED_SHARE else None


def _conclude(alike: tuple[Gpu, ...], _: bool) -> Finding:  # noqa: FBT001  the only state that is judged
    ids = [str(process.pid) for gpu in alike for process in _processes(gpu)]
    return Finding(
        message=f"less than half of the memory of {describe(alike)} is free",
        evidence=tuple(Evidence(source="NVML", value=_describe_memory(gpu)) for gpu in alike),
        remedy=Remedy(
            summary="end the process if it is yours, or choose another GPU with CUDA_VISIBLE_DEVICES",
            commands=(f"ps -fp {','.join(ids)}" if ids else "nvidia-smi",),
        ),
        gpus=indices(alike),
    )


def _processes(gpu: Gpu) -> tuple[GpuProcess, ...]:
    processes = health_of(gpu).processes
    return processes if isinstance(processes, tuple) else ()


def _describe_memory(gpu: Gpu) -> str:
    health = health_of(gpu)
    assert isinstance(health.free_memory, int)
    assert isinstance(health.total_memory, int)
    ids = ", ".join(str(process.pid) for process in _processes(gpu))
    holders = f", held by process {ids}" if ids else ""
    return f"GPU {gpu.index}: {_gib(health.free_memory)} of {_gib(health.total_memory)} free{holders}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
