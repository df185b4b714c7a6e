"""What installed packages need of a GPU and the GPUs at hand do not have."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.tables import PackageNeedRow
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Distribution
from envdoctor.model.finding import Evidence, Finding, Remedy
from envdoctor.rules._devices import Devices


def find_unmet_needs(
    distributions: tuple[Distribution, ...], device: ComputeCapability, kb: KnowledgeBase
) -> Iterator[tuple[Distribution, PackageNeedRow]]:
    """Yield each need of an installed distribution, once though conda and pip may both list it."""
    seen = set()
    for one in distributions:
        if one.shadowed_by or not isinstance(one.version, str) or one.name in seen:
            continue
        seen.add(one.name)
        for need in kb.unmet_needs(one.name, one.version, device):
            yield one, need


def conclude(one: Distribution, need: PackageNeedRow, devices: Devices) -> Finding:
    """Say what does not work, and what to do instead."""
    what = f"{need.feature} of {one.name}" if need.feature else one.name
    return Finding(
        message=f"{what} {one.version} does not work on {devices}: it needs compute capability {need.capability}",
        evidence=(
            *devices.evidence,
            Evidence(source=one.metadata_path.rpartition("/")[2], value=f"{one.name} {one.version} is installed"),
            *(Evidence(source="knowledge base", value=source) for source in need.source[:1]),
        ),
        remedy=Remedy(summary=need.instead),
        gpus=devices.indices,
    )
