"""A driver from before the GPU's architecture."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Driver, Gpu
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease


@rule("ED128", Severity.ERROR, "the driver is older than the GPU's architecture")
def gpu_newer_than_driver(driver: Driver, gpus: tuple[Gpu, ...], kb: KnowledgeBase) -> Conclusions:
    """
    ## What it means
    The driver was released before this GPU's architecture existed. Under it `nvidia-smi` does not list the card, and
    no CUDA program can use it, whatever torch is installed.

    ## How envdoctor knows
    The card was named with `--gpu` and the driver with `--driver`. A branch of the driver supports the architectures
    of the CUDA version that it came with, and of older ones: R520 (CUDA 11.8) brought Ada and Hopper, R570 (CUDA 12.8)
    Blackwell.
    Source: https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html

    ## Why it happens
    A host's image was made before the card was put in, or a driver was named that the card's hosts do not run.

    ## How to fix it
    Choose a host with a driver of that branch or a newer one. A newer driver runs older CUDA builds too.

    ## When to ignore it
    When the driver was only guessed.
    """
    release = driver.release_version
    if not isinstance(release, DriverRelease):
        yield NotApplicable(f"release of the driver: {release.reason}")
        return
    for gpu in gpus:
        capability = gpu.compute_capability
        if not gpu.is_named or not isinstance(capability, ComputeCapability):
            continue
        first = kb.first_driver_branch(capability)
        if first is None or release.branch >= first:
            continue
        yield Finding(
            message=f"driver {release} does not know {gpu.name}: R{first} is the first branch that does",
            evidence=(
                Evidence(source=driver.source, value=f"driver {release}"),
                Evidence(source=gpu.source, value=f"compute capability {capability}"),
                Evidence(
                    source="NVIDIA's table of drivers and architectures",
                    value=f"{capability} begins with CUDA {kb.first_toolkit(capability)}, which came with R{first}",
                ),
            ),
            remedy=Remedy(summary=f"use a host with driver {first} or newer"),
            gpus=(gpu.index,),
        )
