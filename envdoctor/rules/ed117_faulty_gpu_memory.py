"""A GPU's memory has errors that it could not correct."""

from envdoctor.model.facts import Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, first_missing, indices, judge_alike

_FAILED_REMAP = "nvmlDeviceGetRemappedRows: a row could not be remapped"


@rule("ED117", Severity.WARNING, "a GPU's memory has errors")
def faulty_gpu_memory(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    The GPU met memory errors that its ECC could not correct. Whatever ran at that time was ended, and it may happen
    again. A row that could not be remapped means that the card has no spare rows left there and is due for
    replacement; a pending remapping or page retirement takes effect when the GPU is reset.

    ## How envdoctor knows
    NVML's counters of uncorrected errors since the driver was loaded, its row-remapping state and its retired pages.
    GeForce cards have no ECC, so nothing is known about theirs.

    ## Why it happens
    Memory ages and fails. NVIDIA describes the states in its GPU memory error management guide:
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/

    ## How to fix it
    Use another GPU. The owner of the host resets this one (`nvidia-smi --gpu-reset`, or a reboot) and has it tested.

    ## When to ignore it
    When the errors are known, the GPU was tested since, and the job writes checkpoints.
    """
    yield from judge_alike(gpus, variables, _errors, _conclude)


def _errors(health: GpuHealth) -> tuple[str, ...] | Unavailable | None:
    errors = []
    if health.remapped_rows_failed is True:
        errors.append(_FAILED_REMAP)
    if health.remapped_rows_pending is True:
        errors.append("nvmlDeviceGetRemappedRows: a remapping waits for a reset of the GPU")
    if health.retired_pages_pending is True:
        errors.append("nvmlDeviceGetRetiredPagesPendingStatus: a retirement waits for a reset of the GPU")
    if isinstance(health.ecc_uncorrected, int) and health.ecc_uncorrected:
        errors.append(f"nvmlDeviceGetTotalEccErrors: {health.ecc_uncorrected} uncorrected since the driver was loaded")
    return tuple(errors) or first_missing(
        health.remapped_rows_failed,
        health.remapped_rows_pending,
        health.retired_pages_pending,
        health.ecc_uncorrected,
    )


def _conclude(alike: tuple[Gpu, ...], errors: tuple[str, ...]) -> Finding:
    if _FAILED_REMAP in errors:
        remedy = Remedy(summary="use another GPU; this one is due for replacement")
    else:
        remedy = Remedy(
            summary="use another GPU; the owner of the host resets this one when nothing runs on it",
            commands=tuple(f"sudo nvidia-smi --gpu-reset -i {gpu.index}" for gpu in alike),
            needs_admin=True,
        )
    return Finding(
        message=f"the memory of {describe(alike)} has errors that could not be corrected",
        evidence=tuple(Evidence(source="NVML", value=error) for error in errors),
        remedy=remedy,
        gpus=indices(alike),
    )
