"""The driver is too old for the CUDA version that torch was built with."""

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import (
    CudaLibrary,
    DeviceCode,
    Distribution,
    Driver,
    Environment,
    Gpu,
    Host,
    TorchBuild,
    Variable,
)
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import CudaVersion, DriverRelease
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._machine import forward_library, is_geforce


@rule("ED101", Severity.ERROR, "the driver is too old for torch's CUDA version")
def driver_too_old(
    torch: TorchBuild,
    driver: Driver,
    kb: KnowledgeBase,
    *,
    gpus: tuple[Gpu, ...] = (),
    variables: tuple[Variable, ...] = (),
    host: Host | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
) -> Conclusions:
    """
    ## What it means
    torch brings its own CUDA runtime, and that needs a driver of at least a certain release. With an older one torch
    says `The NVIDIA driver on your system is too old (found version 11040)`, and no GPU can be used.

    ## How envdoctor knows
    It compares the CUDA version in `torch/version.py` with the driver's release. From CUDA 11.1 on any driver of the
    same major version will do (minor-version compatibility): 450.80.02 for 11.x, 525.60.13 for 12.x, 580 for 13.x, so
    CUDA 12.6 on a 550 driver is fine although `nvidia-smi` says 12.4. Up to CUDA 11.0 each minor version needs its own.
    Source: https://docs.nvidia.com/deploy/cuda-compatibility/

    ## Why it happens
    `pip install torch` takes the newest CUDA, whatever the driver. A lock that was made on one machine is used on
    another with an older driver.

    ## How to fix it
    Install a torch build for an older CUDA. On a rented host nobody inside can change the driver: redeploy on a host
    with a newer one. On your own machine an administrator upgrades the driver. Installing a CUDA toolkit does not help.

    ## When to ignore it
    When the job runs on the CPU, or on another machine.
    """
    cuda = torch.build_cuda_version
    if cuda is None:
        yield NotApplicable("torch is a build without CUDA")
        return
    release = driver.release_version
    if not isinstance(release, DriverRelease):
        yield Undecided(f"release of the driver: {release.reason}")
        return
    if isinstance(driver.cuda_version, CudaVersion) and driver.cuda_version >= cuda:
        return
    runs = kb.driver_runs(release, cuda)
    if runs is None:
        yield Undecided(f"which driver CUDA {cuda} needs is not known")
        return
    forward = forward_library(host, release) if host else None
    if runs or (forward and _may_serve(forward, cuda, gpus, kb)):
        return
    capabilities = _capabilities(gpus, variables)
    remedy = None
    if capabilities:
        wish = TorchWish(
            installed=torch,
            capability=capabilities[0],
            beside=capabilities[1:],
            environment=environment,
            distributions=distributions,
            device_code=device_code,
            driver=driver,
            host=host,
        )
        remedy = find_torch_remedy(wish, kb)
    newest = kb.newest_cuda(release)
    yield Finding(
        message=f"driver {release} is too old for torch {torch.version}, which was built with CUDA {cuda}",
        evidence=(
            Evidence(
                source=driver.source, value=f"driver {release}" + (f", for CUDA up to {newest}" if newest else "")
            ),
            Evidence(source=f"{torch.root}/version.py", value=f"CUDA {cuda}"),
            Evidence(
                source="NVIDIA's compatibility table", value=f"CUDA {cuda} needs driver {kb.minimum_driver(cuda)}"
            ),
        ),
        remedy=_with_other_host(remedy, f"use a host with driver {kb.minimum_driver(cuda)} or newer"),
    )


def _may_serve(forward: CudaLibrary, cuda: CudaVersion, gpus: tuple[Gpu, ...], kb: KnowledgeBase) -> bool:
    """Whether forward compatibility may run what the driver does not; GeForce cards refuse it (ED103)."""
    assert isinstance(forward.release, DriverRelease)
    refuses = any(is_geforce(gpu) or gpu.is_named for gpu in gpus)
    return not refuses and kb.driver_runs(forward.release, cuda) is not False


def _capabilities(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...]) -> tuple[ComputeCapability, ...]:
    found = [gpu.compute_capability for gpu in find_visible_gpus(gpus, variables).gpus]
    return tuple(dict.fromkeys(one for one in found if isinstance(one, ComputeCapability)))


def _with_other_host(remedy: Remedy | None, other_host: str) -> Remedy:
    """Add the way out that is always there: who rents a host cannot change its driver, but can change the host."""
    if remedy is None:
        return Remedy(summary=other_host, needs_admin=True)
    if remedy.needs_admin:
        return remedy
    return Remedy(summary=f"{remedy.summary}; or {other_host}", commands=remedy.commands)
