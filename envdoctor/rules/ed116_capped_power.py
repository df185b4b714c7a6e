"""A GPU may draw far less power than it was made for."""

from envdoctor.model.facts import Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, first_missing, indices, judge_alike

# Down to here clocks, and with them speed, fall by a few percent only: a common choice of careful owners.
_HARMLESS_SHARE = 0.9


@rule("ED116", Severity.WARNING, "the power limit of a GPU is far below its default")
def capped_power(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    The GPU is held below the power that it was made for, so it lowers its clocks under load. Results do not change,
    but the job is slower than on the same card elsewhere, and timings do not compare.

    ## How envdoctor knows
    NVML tells the power limit and its default. A limit of 90 % of the default or more is not reported.

    ## Why it happens
    Owners of rented rigs cap the power to spare the supply, the heat or the bill. Some do so for noise at home.

    ## How to fix it
    The owner of the host sets the limit back. On a rented machine: ask, or take another.

    ## When to ignore it
    When the time does not matter, or the cap is your own.
    """
    yield from judge_alike(gpus, variables, _capped, _conclude)


def _capped(health: GpuHealth) -> tuple[float, float] | Unavailable | None:
    limit, default = health.power_limit, health.power_default_limit
    if isinstance(limit, Unavailable) or isinstance(default, Unavailable):
        return first_missing(limit, default)
    return (limit, default) if limit < default * _HARMLESS_SHARE else None


def _conclude(alike: tuple[Gpu, ...], limits: tuple[float, float]) -> Finding:
    limit, default = limits
    return Finding(
        message=f"the power of {describe(alike)} is limited to {limit:g} W, the default is {default:g} W",
        evidence=(
            Evidence(source="NVML", value=f"nvmlDeviceGetPowerManagementLimit: {limit:g} W"),
            Evidence(source="NVML", value=f"nvmlDeviceGetPowerManagementDefaultLimit: {default:g} W"),
        ),
        remedy=Remedy(
            summary="the owner of the host sets the limit back to its default",
            commands=tuple(f"sudo nvidia-smi -i {gpu.index} -pl {default:g}" for gpu in alike),
            needs_admin=True,
        ),
        gpus=indices(alike),
    )
