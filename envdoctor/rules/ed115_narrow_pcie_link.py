"""A GPU's PCIe link uses fewer lanes than it could."""

from envdoctor.model.facts import Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._alike import describe, first_missing, indices, judge_alike


@rule("ED115", Severity.WARNING, "a GPU's PCIe link uses fewer lanes than it could")
def narrow_pcie_link(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    Data move to and from the GPU over fewer PCIe lanes than the card has: loading data, offloading and multi-GPU
    training over PCIe are slower in proportion. Work that stays on the card is not.

    ## How envdoctor knows
    NVML tells the current and the greatest link width. The link's *generation* is not judged: an idle card drops to
    generation 1 to save power, which is normal. The width stays.

    ## Why it happens
    Rented rigs put cards on risers and short slots; a riser cable, a dirty or half-seated connector drops lanes; two
    cards share the lanes of one slot.

    ## How to fix it
    On a rented machine: take another if the job moves much data. On your own: reseat the card, change riser or slot.

    ## When to ignore it
    When the board gives each of two cards 8 lanes by design, or the job loads its data once.
    """
    yield from judge_alike(gpus, variables, _narrowed, _conclude)


def _narrowed(health: GpuHealth) -> tuple[int, int] | Unavailable | None:
    width, maximum = health.pcie_width, health.pcie_max_width
    if isinstance(width, Unavailable) or isinstance(maximum, Unavailable):
        return first_missing(width, maximum)
    return (width, maximum) if 0 < width < maximum else None


def _conclude(alike: tuple[Gpu, ...], lanes: tuple[int, int]) -> Finding:
    width, maximum = lanes
    return Finding(
        message=f"the PCIe link of {describe(alike)} uses {width} of {maximum} lanes",
        evidence=(
            Evidence(source="NVML", value=f"nvmlDeviceGetCurrPcieLinkWidth: {width}"),
            Evidence(source="NVML", value=f"nvmlDeviceGetMaxPcieLinkWidth: {maximum}"),
        ),
        remedy=Remedy(
            summary="take another machine if the job moves much data; the owner reseats the card or changes its slot",
            needs_admin=True,
        ),
        gpus=indices(alike),
    )
