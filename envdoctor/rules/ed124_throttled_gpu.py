"""The hardware holds a GPU's clocks down, for heat or for want of power."""

from envdoctor.model.facts import Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, health_of, indices, judge_alike

# Not those that belong to normal life: GPU_IDLE, SW_POWER_CAP under load, application and display clocks.
_REASONS = {
    "HW_SLOWDOWN": "by the hardware",
    "HW_THERMAL_SLOWDOWN": "for heat",
    "SW_THERMAL_SLOWDOWN": "for heat, by the driver",
    "HW_POWER_BRAKE_SLOWDOWN": "for want of power",
}


@rule("ED124", Severity.WARNING, "a GPU is slowed down for heat or power")
def throttled_gpu(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    At the moment of the check the GPU's clocks are held down because it is too hot or its power supply cannot follow.
    Jobs are slower, and such cards are the ones that later fall off the bus (Xid 79).

    ## How envdoctor knows
    NVML tells why the clocks are low. Reasons of normal life are left out: an idle GPU, the power cap under load,
    clocks set by an application.

    ## Why it happens
    Blocked or slow fans, a hot room, cards too close together; a missing power cable, a weak supply.

    ## How to fix it
    Take another machine, or have the owner look after cooling and power.

    ## When to ignore it
    When it is gone a minute later: a short peak.
    """
    yield from judge_alike(gpus, variables, _reasons, _conclude)


def _reasons(health: GpuHealth) -> tuple[str, ...] | Unavailable | None:
    if isinstance(health.clock_event_reasons, Unavailable):
        return health.clock_event_reasons
    return tuple(reason for reason in health.clock_event_reasons if reason in _REASONS) or None


def _conclude(alike: tuple[Gpu, ...], reasons: tuple[str, ...]) -> Finding:
    temperatures = [(gpu.index, health_of(gpu).temperature) for gpu in alike]
    return Finding(
        message=f"the clocks of {describe(alike)} are held down {' and '.join(_REASONS[reason] for reason in reasons)}",
        evidence=(
            Evidence(source="NVML", value=f"nvmlDeviceGetCurrentClocksEventReasons: {', '.join(reasons)}"),
            *(
                Evidence(source="NVML", value=f"GPU {index}: {degrees} degrees Celsius")
                for index, degrees in temperatures
                if isinstance(degrees, int)
            ),
        ),
        remedy=Remedy(
            summary="take another machine, or have its owner look after cooling and power",
            commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",),
            needs_admin=True,
        ),
        gpus=indices(alike),
    )
