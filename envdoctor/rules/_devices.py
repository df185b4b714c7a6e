"""The GPUs that a rule judges: those that CUDA would see, grouped by compute capability."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Gpu, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Undecided
from envdoctor.model.rule import Conclusions
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._alike import describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """GPUs of one compute capability: what runs on one of them runs on all."""

    compute_capability: ComputeCapability
    gpus: tuple[Gpu, ...]
    beside: tuple[ComputeCapability, ...] = ()  # of the other GPUs in the same machine

    @property
    def indices(self) -> tuple[int, ...]:
        """What `Finding.gpus` wants."""
        return tuple(gpu.index for gpu in self.gpus)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Where the compute capability was read: once for all that NVML told, once per named card."""
        sources = dict.fromkeys(gpu.source for gpu in self.gpus)
        return tuple(
            Evidence(source=source, value=f"compute capability {self.compute_capability}") for source in sources
        )

    def __str__(self) -> str:
        return describe_gpus(self.gpus)


def describe_gpus(gpus: tuple[Gpu, ...]) -> str:
    """Name GPUs in a message, by number: those of one model together, named cards without a number."""
    names = dict.fromkeys(gpu.name for gpu in _by_number(gpus))
    if all(gpu.is_named for gpu in gpus):
        return enumerate_all(names)
    return enumerate_all(describe([gpu for gpu in gpus if gpu.name == name]) for name in names)


def capabilities_of(gpus: tuple[Gpu, ...]) -> tuple[ComputeCapability, ...]:
    """Return the compute capabilities that are known, each once, in the order of the GPUs' numbers."""
    return tuple(dict.fromkeys(filter(None, map(_capability_of, _by_number(gpus)))))


def judge_devices(
    gpus: tuple[Gpu, ...], variables: tuple[Variable, ...], judge: Callable[[Devices], Conclusions]
) -> Conclusions:
    """Ask *judge* about each compute capability among the visible *gpus*, and say what could not be judged."""
    visibility = find_visible_gpus(gpus, variables)
    if not visibility.gpus:
        yield NotApplicable("no GPU is visible")
        return
    yield from _without_capability(visibility.gpus)
    groups = _group(visibility.gpus)
    conclusions = [tuple(judge(devices)) for devices in groups]
    if visibility.certain or all(any(isinstance(one, Finding) for one in group) for group in conclusions):
        for group in conclusions:
            yield from group
        return
    # A finding about a GPU that may be hidden proves nothing, unless it holds for whichever is meant.
    yield from (one for group in conclusions for one in group if not isinstance(one, Finding))
    if any(isinstance(one, Finding) for group in conclusions for one in group):
        yield Undecided(f"CUDA_VISIBLE_DEVICES={visibility.setting}: cannot tell which GPUs are meant, and it matters")


def _without_capability(gpus: tuple[Gpu, ...]) -> Iterator[Undecided]:
    for gpu in gpus:
        if not isinstance(gpu.compute_capability, ComputeCapability):
            reason = f"compute capability of GPU {gpu.index} ({gpu.name}): {gpu.compute_capability.reason}"
            yield Undecided(reason, (gpu.index,))


def _by_number(gpus: tuple[Gpu, ...]) -> list[Gpu]:
    return sorted(gpus, key=lambda gpu: gpu.index)


def _group(gpus: tuple[Gpu, ...]) -> list[Devices]:
    here = capabilities_of(tuple(gpu for gpu in gpus if not gpu.is_named))
    return [
        Devices(
            compute_capability=capability,
            gpus=tuple(gpu for gpu in gpus if gpu.compute_capability == capability),
            beside=tuple(other for other in here if other != capability),
        )
        for capability in capabilities_of(gpus)
    ]


def _capability_of(gpu: Gpu) -> ComputeCapability | None:
    return gpu.compute_capability if isinstance(gpu.compute_capability, ComputeCapability) else None
