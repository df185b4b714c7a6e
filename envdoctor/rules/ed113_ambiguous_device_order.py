"""Different GPUs, and nothing says in which order CUDA numbers them."""

from envdoctor.model.facts import Gpu, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus, has_certain_order


@rule("ED113", Severity.WARNING, "GPUs of different models are numbered by speed, not as nvidia-smi numbers them")
def ambiguous_device_order(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...]) -> Conclusions:
    """
    ## What it means
    `cuda:0` and `CUDA_VISIBLE_DEVICES=0` may be another card than GPU 0 of `nvidia-smi`. CUDA numbers the fastest card
    first (`CUDA_DEVICE_ORDER=FASTEST_FIRST` is its default), NVML and `nvidia-smi` go by PCI address. A job then runs
    on the wrong card without any error.

    ## How envdoctor knows
    NVML lists GPUs of different models, more than one of them can be meant, and `CUDA_DEVICE_ORDER` is not
    `PCI_BUS_ID`.

    ## Why it happens
    Nobody sets the variable until it hurts.

    ## How to fix it
    `export CUDA_DEVICE_ORDER=PCI_BUS_ID`, before Python starts. Or name GPUs by UUID.

    ## When to ignore it
    When it does not matter which of the cards the job gets.
    """
    here = tuple(gpu for gpu in gpus if not gpu.is_named)
    if not here:
        yield NotApplicable("no GPU is here")
        return
    visible = find_visible_gpus(here, variables)
    # UUIDs are numbered in the order in which the variable lists them.
    if has_certain_order(here, variables) or not (visible.setting is None or visible.uses_ordinals):
        return
    setting = "not set" if visible.setting is None else visible.setting
    yield Finding(
        message="GPUs of different models are here, and CUDA may number them otherwise than nvidia-smi does",
        evidence=(
            *(Evidence(source="NVML", value=f"GPU {gpu.index}: {gpu.name}") for gpu in here),
            Evidence(source="environment", value="CUDA_DEVICE_ORDER is not PCI_BUS_ID"),
            Evidence(source="environment", value=f"CUDA_VISIBLE_DEVICES: {setting}"),
        ),
        remedy=Remedy(
            summary="number them by PCI address, as nvidia-smi does",
            commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",),
        ),
    )
