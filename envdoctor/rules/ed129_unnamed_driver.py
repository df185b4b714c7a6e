"""Cards that were named without the driver of their host."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Driver, Gpu, TorchBuild
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._devices import describe_gpus


@rule("ED129", Severity.INFO, "the driver that the named card will run under is not known")
def unnamed_driver(
    gpus: tuple[Gpu, ...], torch: TorchBuild, kb: KnowledgeBase, driver: Driver | None = None
) -> Conclusions:
    """
    ## What it means
    torch may have code for the card and still not start on its host: every CUDA build needs a driver of a certain age,
    and so does every card. A rented host cannot be given another driver, so this is to be asked before it is rented.

    ## How envdoctor knows
    From the CUDA version in `torch/version.py`, NVIDIA's table of the oldest driver that runs it, and the branch of
    the driver that first supported the card. Which driver the host has is not known here.
    Source: https://docs.nvidia.com/deploy/cuda-compatibility/

    ## Why it happens
    The card was named with `--gpu`, and no driver with `--driver`.

    ## How to fix it
    Look for the driver in the description of the host, and judge again with `--driver`.

    ## When to ignore it
    When you know that the host's driver is new enough.
    """
    named = tuple(gpu for gpu in gpus if gpu.is_named)
    if driver or not named:
        yield NotApplicable("the driver is known" if driver else "no card was named")
        return
    built_with = torch.build_cuda_version
    for_build = kb.minimum_driver(built_with) if built_with else None
    if built_with is None or for_build is None:
        yield NotApplicable(f"no driver is known to be needed by torch {torch.version}")
        return
    oldest = {gpu.index: _oldest_driver(gpu, for_build, kb) for gpu in named}
    for release in sorted(set(oldest.values())):
        cards = tuple(gpu for gpu in named if oldest[gpu.index] == release)
        for_cards = (
            Evidence(source=gpu.source, value=f"{gpu.compute_capability} is supported from R{release.branch} on")
            for gpu in cards
            if release != for_build
        )
        yield Finding(
            message=f"torch {torch.version} on {describe_gpus(cards)} needs a host with driver {release} or newer",
            evidence=(
                Evidence(source="torch/version.py", value=f"built with CUDA {built_with}"),
                Evidence(source="NVIDIA's compatibility table", value=f"CUDA {built_with} needs driver {for_build}"),
                *for_cards,
            ),
            remedy=Remedy(summary="name the driver of that host with `--driver`, and it is judged too"),
            gpus=tuple(gpu.index for gpu in cards),
        )


def _oldest_driver(gpu: Gpu, for_build: DriverRelease, kb: KnowledgeBase) -> DriverRelease:
    capability = gpu.compute_capability
    first = kb.first_driver_branch(capability) if isinstance(capability, ComputeCapability) else None
    return max(for_build, DriverRelease(str(first))) if first else for_build
