"""``CUDA_VISIBLE_DEVICES`` has an entry that hides GPUs because it means none, or is there twice."""

from envdoctor.model.facts import Gpu, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import VISIBLE_DEVICES, EntryFault, Visibility, find_visible_gpus
from envdoctor.rules._alike import indices


@rule("ED112", Severity.ERROR, "CUDA_VISIBLE_DEVICES has a faulty entry")
def unknown_visible_device(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...]) -> Conclusions:
    """
    ## What it means
    `CUDA_VISIBLE_DEVICES` names a GPU that is not here. CUDA ignores that entry and every entry after it, without a
    word; if it is the first, no GPU is visible at all. An entry that is there twice hides all GPUs. Jobs then run on
    the CPU, on fewer GPUs than meant, or fail with `invalid device ordinal`.

    ## How envdoctor knows
    It reads the variable as CUDA does and compares its entries with the GPUs that NVML lists. Numbers count from 0.
    UUIDs may be shortened to any length that is unique.

    ## Why it happens
    Inside a container or a job the GPUs are numbered anew from 0, whatever number the host gave them. A UUID is that
    of another machine. The value was meant for another variable: `all`, `cuda:0`.

    ## How to fix it
    Name GPUs that are here: `nvidia-smi -L` lists numbers and UUIDs. Inside Python use `cuda:0` for the first of them.

    ## When to ignore it
    When the job sets the variable itself, or runs on another machine.
    """
    here = tuple(gpu for gpu in gpus if not gpu.is_named)
    if not here:
        yield NotApplicable("no GPU is here")
        return
    visible = find_visible_gpus(here, variables)
    if visible.fault is None:
        return
    yield Finding(
        message=f"CUDA_VISIBLE_DEVICES={visible.setting} hides GPUs: `{visible.faulty_entry}` {visible.fault.value}",
        evidence=(
            Evidence(source="environment", value=f"CUDA_VISIBLE_DEVICES={visible.setting}"),
            *(Evidence(source="NVML", value=f"GPU {gpu.index}: {gpu.name}, {gpu.uuid}") for gpu in here),
            Evidence(source="visible to CUDA", value=_describe_visible(visible)),
        ),
        remedy=Remedy(
            summary="name GPUs that are here, each once",
            commands=(f"export CUDA_VISIBLE_DEVICES={_sound_setting(visible, here)}",),
        ),
    )


def _describe_visible(visible: Visibility) -> str:
    if visible.fault is EntryFault.REPEATED or not visible.entries:
        return "no GPU"
    return f"only what {', '.join(visible.entries)} names"


def _sound_setting(visible: Visibility, here: tuple[Gpu, ...]) -> str:
    """Leave out the entries that mean none or are there twice; where nothing is left, name all GPUs."""
    kept = ""
    for entry in (visible.setting or "").split(","):
        longer = f"{kept},{entry.strip()}" if kept else entry.strip()
        again = find_visible_gpus(here, (Variable(name=VISIBLE_DEVICES, value=longer),))
        kept = longer if again.gpus and again.fault is None else kept
    return kept or ",".join(map(str, indices(here)))
