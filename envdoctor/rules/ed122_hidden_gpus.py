"""``CUDA_VISIBLE_DEVICES`` hides every GPU, as it is told to."""

from envdoctor.model.facts import Gpu, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._alike import indices
from envdoctor.rules._machine import wants_cuda


@rule("ED122", Severity.WARNING, "CUDA_VISIBLE_DEVICES hides every GPU")
def hidden_gpus(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...], torch: TorchBuild | None = None) -> Conclusions:
    """
    ## What it means
    GPUs are here, but `CUDA_VISIBLE_DEVICES` is empty or negative, so CUDA programs see none. torch runs on the CPU,
    or fails with `No CUDA GPUs are available`. Rules about GPUs had nothing to judge.

    ## How envdoctor knows
    NVML lists GPUs, and the variable in the environment of `envdoctor` names none of them.

    ## Why it happens
    Left over from a run on the CPU, or exported by a scheduler to a job that asked for no GPU (`NoDevFiles`). An
    empty variable is not the same as one that is not set.

    ## How to fix it
    `unset CUDA_VISIBLE_DEVICES`, or ask the scheduler for a GPU.

    ## When to ignore it
    When the job is meant for the CPU.
    """
    if not wants_cuda(torch):
        yield NotApplicable("torch is a build without CUDA")
        return
    here = tuple(gpu for gpu in gpus if not gpu.is_named)
    if not here:
        yield NotApplicable("no GPU of this machine is judged")
        return
    visible = find_visible_gpus(here, variables)
    if visible.gpus or visible.fault:
        return
    yield Finding(
        message=f"CUDA_VISIBLE_DEVICES='{visible.setting}' hides every GPU",
        evidence=(
            Evidence(source="environment", value=f"CUDA_VISIBLE_DEVICES='{visible.setting}'"),
            *(Evidence(source="NVML", value=f"GPU {gpu.index}: {gpu.name}") for gpu in here),
        ),
        remedy=Remedy(summary="let CUDA see the GPUs again", commands=("unset CUDA_VISIBLE_DEVICES",)),
        gpus=indices(here),
    )
