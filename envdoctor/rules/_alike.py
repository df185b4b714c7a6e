"""GPUs that are judged by their state: those of one model and one state give one finding, be they eight."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from envdoctor.model.facts import Absence, Gpu, GpuHealth, Unavailable, Variable
from envdoctor.model.finding import Finding, NotApplicable, Undecided
from envdoctor.model.rule import Conclusions
from envdoctor.model.visibility import find_visible_gpus

State = TypeVar("State", bound=Hashable)


def describe(gpus: Sequence[Gpu]) -> str:
    """Name GPUs of one model in a message: ``GPU 0 (NVIDIA A30)``, ``GPUs 0-2, 5 (NVIDIA A30)``."""
    numbers = _number_ranges({gpu.index for gpu in gpus})
    return f"{'GPU' if len(gpus) == 1 else 'GPUs'} {numbers} ({gpus[0].name})"


def indices(gpus: Sequence[Gpu]) -> tuple[int, ...]:
    """Return what `Finding.gpus` wants."""
    return tuple(sorted(gpu.index for gpu in gpus))


def health_of(gpu: Gpu) -> GpuHealth:
    """Return what NVML says about a GPU that is here."""
    assert gpu.health is not None
    return gpu.health


def judge_alike(
    gpus: tuple[Gpu, ...],
    variables: tuple[Variable, ...],
    state_of: Callable[[GpuHealth], State | Unavailable | None],
    conclude: Callable[[tuple[Gpu, ...], State], Finding],
) -> Conclusions:
    """Let *conclude* speak about the visible GPUs whose state *state_of* finds worth a finding.

    *state_of* returns None where there is nothing to say, and `Unavailable` where it cannot be told.
    """
    visible = find_visible_gpus(gpus, variables)
    here = sorted((gpu for gpu in visible.gpus if not gpu.is_named), key=lambda gpu: gpu.index)
    if not here:
        yield NotApplicable("cards named with --gpu are not here" if visible.gpus else "no GPU is visible")
        return
    states = [(gpu, state_of(health_of(gpu))) for gpu in here]
    for gpu, state in states:
        if isinstance(state, Unavailable) and state.absence is Absence.UNREADABLE:
            yield Undecided(f"{describe([gpu])}: {state.reason}", (gpu.index,))
    told = [(gpu, state) for gpu, state in states if state is not None and not isinstance(state, Unavailable)]
    if told and not visible.certain:
        # A finding about a GPU that may be hidden proves nothing.
        yield Undecided(f"CUDA_VISIBLE_DEVICES={visible.setting} does not tell which GPUs are meant")
        return
    for name, state in dict.fromkeys((gpu.name, state) for gpu, state in told):
        yield conclude(tuple(gpu for gpu, other in told if (gpu.name, other) == (name, state)), state)


def first_missing(*values: object) -> Unavailable | None:
    """Return the first of *values* that is missing; what could not be read comes before what does not exist."""
    missing = [value for value in values if isinstance(value, Unavailable)]
    unreadable = [value for value in missing if value.absence is Absence.UNREADABLE]
    return next(iter(unreadable + missing), None)


def _number_ranges(numbers: set[int]) -> str:
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(sorted(starts), sorted(ends), strict=True))
