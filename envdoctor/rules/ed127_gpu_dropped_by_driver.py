"""A driver that no longer supports the GPU."""

from collections.abc import Iterator
from dataclasses import dataclass

from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Driver, Gpu, Host
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._machine import unlisted_pci_gpus


@dataclass(frozen=True, slots=True)
class _Card:
    """A card that NVML did not list: nothing but its compute capability is known."""

    name: str
    source: str
    compute_capability: ComputeCapability
    indices: tuple[int, ...]


@rule("ED127", Severity.ERROR, "the driver no longer supports the GPU")
def gpu_dropped_by_driver(
    driver: Driver, gpus: tuple[Gpu, ...], kb: KnowledgeBase, host: Host | None = None
) -> Conclusions:
    """
    ## What it means
    NVIDIA ended the support for this GPU's architecture with an older branch of the driver. Under the newer driver
    `nvidia-smi` does not list the card, and CUDA programs do not see it.

    ## How envdoctor knows
    From NVIDIA's table of drivers and architectures: Kepler ends with R470; Maxwell, Pascal and Volta end with R580.
    The card is one that was named with `--gpu` beside `--driver`, or one on the PCI bus that NVML does not list.
    Source: https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html

    ## Why it happens
    The driver was upgraded for the sake of newer cards or of CUDA 13.

    ## How to fix it
    Use a host with a driver of the card's last branch. Code for it ends with CUDA 12 as well, so a torch build for
    CUDA 12 or older is needed anyway.

    ## When to ignore it
    When the job does not use this card.
    """
    release = driver.release_version
    if not isinstance(release, DriverRelease):
        yield NotApplicable(f"release of the driver: {release.reason}")
        return
    for card in (*_named_cards(gpus), *_cards_on_the_bus(host, gpus, kb)):
        last = kb.last_driver_branch(card.compute_capability)
        if last is None or release.branch <= last:
            continue
        capability = card.compute_capability
        yield Finding(
            message=f"driver {release} no longer supports {card.name}: R{last} was the last branch that does",
            evidence=(
                Evidence(source=driver.source, value=f"driver {release}"),
                Evidence(source=card.source, value=f"compute capability {capability}"),
                Evidence(source="NVIDIA's table of drivers and architectures", value=f"{capability} ends with R{last}"),
            ),
            remedy=Remedy(summary=f"use a host with a driver of branch R{last} or older"),
            gpus=card.indices,
        )


def _named_cards(gpus: tuple[Gpu, ...]) -> Iterator[_Card]:
    for gpu in gpus:
        if gpu.is_named and isinstance(gpu.compute_capability, ComputeCapability):
            yield _Card(gpu.name, gpu.source, gpu.compute_capability, (gpu.index,))


def _cards_on_the_bus(host: Host | None, gpus: tuple[Gpu, ...], kb: KnowledgeBase) -> Iterator[_Card]:
    for gpu in unlisted_pci_gpus(host, gpus) if host else ():
        if chip := kb.chip(gpu.device_id):
            name, source = f"the {chip.chip} card at {gpu.address}", f"/sys/bus/pci/devices/{gpu.address}"
            yield _Card(name, source, chip.compute_capability, ())
