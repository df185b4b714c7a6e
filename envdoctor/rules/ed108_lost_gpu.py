"""A GPU that the driver lists and cannot use: off the bus, in want of a reset, without its power cables."""

import re

from envdoctor.model.facts import Gpu, NvmlCode, NvmlSession
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import NvmlReturn

# What each return value says of a GPU, and what helps (nvml.h, `nvmlReturn_t`).
_FAULTS = {
    NvmlReturn.INSUFFICIENT_POWER: (
        "its power cables are not properly attached",
        Remedy(summary="the owner of the host attaches the power cables of the card", needs_admin=True),
    ),
    NvmlReturn.IRQ_ISSUE: (
        "its interrupts do not work",
        Remedy(
            summary="the owner of the host looks into the kernel's log and reboots",
            commands=("sudo dmesg | grep -i -e NVRM -e Xid",),
            needs_admin=True,
        ),
    ),
    NvmlReturn.GPU_IS_LOST: (
        "it has fallen off the bus",
        Remedy(
            summary="take another machine; the owner reboots this one, and looks after power, heat and riser if it "
            "happens again (Xid 79)",
            commands=("sudo dmesg | grep -i Xid",),
            needs_admin=True,
        ),
    ),
    NvmlReturn.RESET_REQUIRED: (
        "it needs a reset before it can be used again",
        Remedy(
            summary="the owner of the host resets the GPU when nothing runs on it, or reboots",
            commands=("sudo nvidia-smi --gpu-reset",),
            needs_admin=True,
        ),
    ),
}


@rule("ED108", Severity.ERROR, "a GPU does not answer the driver")
def lost_gpu(nvml: NvmlSession, gpus: tuple[Gpu, ...] = ()) -> Conclusions:
    """
    ## What it means
    The driver lists the GPU but cannot use it. CUDA programs that touch it fail, and often every CUDA program on the
    machine does, because starting CUDA asks all GPUs.

    ## How envdoctor knows
    A call of NVML about this GPU failed with `NVML_ERROR_GPU_IS_LOST` (15), `NVML_ERROR_RESET_REQUIRED` (16),
    `NVML_ERROR_INSUFFICIENT_POWER` (8) or `NVML_ERROR_IRQ_ISSUE` (11).

    ## Why it happens
    The GPU fell off the PCI bus (Xid 79: `GPU has fallen off the bus`): power supply, heat, a bad riser, a weak slot.
    Or an error left it in a state that only a reset ends.

    ## How to fix it
    On a rented machine: take another one. The owner reboots, and looks after the hardware if it comes again.
    Meanwhile `CUDA_VISIBLE_DEVICES` with the other GPUs may let the job run.

    ## When to ignore it
    Never without a reboot.
    """
    names = {gpu.index: gpu.name for gpu in gpus}
    for number, (fault, remedy) in _FAULTS.items():
        failed = [(function, code) for function, code in nvml.failed_calls if code.number == number]
        for index in dict.fromkeys(_gpu_of(function) for function, _ in failed):
            about = [(function, code) for function, code in failed if _gpu_of(function) == index]
            yield Finding(
                message=f"{_describe(index, names)} cannot be used: {fault}",
                evidence=tuple(Evidence(source="NVML", value=_describe_call(*call)) for call in about[:3]),
                remedy=remedy,
                gpus=() if index is None else (index,),
            )


def _gpu_of(function: str) -> int | None:
    match = re.search(r"\((\d+)\)$", function)
    return int(match[1]) if match else None


def _describe(index: int | None, names: dict[int, str]) -> str:
    if index is None:
        return "a GPU"
    return f"GPU {index} ({names[index]})" if index in names else f"GPU {index}"


def _describe_call(function: str, code: NvmlCode) -> str:
    return f"{function}: {code.name} ({code.number})"
