"""No library of an installed extension has code that runs on the GPU."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Driver, Environment, Gpu, Host, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._coverage import (
    DistributionCoverage,
    Installed,
    Target,
    cover,
    cover_extensions,
    newest_ptx_isa,
    short_path,
    why_unsettled,
)
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._rebuild import extension_remedy


@rule("ED204", Severity.WARNING, "an extension has no code for this GPU")
def extension_without_code_for_gpu(
    device_code: tuple[DeviceCode, ...],
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    torch: TorchBuild | None = None,
    driver: Driver | None = None,
    host: Host | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    A package with compiled CUDA kernels is installed, and none of its libraries has code that this GPU can run.
    torch itself may be fine. As soon as the package launches a kernel, it fails with
    `CUDA error: no kernel image is available for execution on the device`.

    ## How envdoctor knows
    It reads the kernel containers of every library in the environment: which architectures they hold machine code and
    PTX for. A package is judged by the best of its libraries, and of variants for several CUDA versions, as in
    bitsandbytes, by the one for torch's. PTX counts only if the driver is new enough to compile it. It is a warning
    and no error because nothing shows that the job uses the package.

    ## Why it happens
    The extension was built on a machine with another GPU, in a container with `TORCH_CUDA_ARCH_LIST` set for other
    GPUs, or its wheel is older than the card.

    ## How to fix it
    Build it for this GPU: `TORCH_CUDA_ARCH_LIST="8.6" pip install --no-build-isolation --no-cache-dir ...`, without a
    left-over `build/` folder. Or install a newer wheel. To reinstall torch does not help.

    ## When to ignore it
    When the job does not use the package.
    """
    installed = Installed(torch=torch, distributions=distributions, environment=environment, variables=variables)
    ptx_isa = newest_ptx_isa(driver, host, kb)

    def judge(devices: Devices) -> Conclusions:
        target = Target(compute_capability=devices.compute_capability, ptx_isa=ptx_isa)
        for extension in cover_extensions(device_code, installed, target, kb):
            if extension.total.native or extension.total.jit:
                continue
            if extension.unreadable:
                first = extension.unreadable[0]
                reason = f"whether {extension.name} has code: {short_path(first.library)}: {first.unreadable}"
                yield Undecided(reason, devices.indices)
                continue
            archs = (entry.arch for one in extension.libraries for group in one.code.containers for entry in group.code)
            if why := why_unsettled(archs, devices.compute_capability, torch, driver, kb):
                yield Undecided(f"whether {extension.name} has code for {devices}: {why}", devices.indices)
                continue
            newer_ptx = tuple(_name_newer_ptx(extension, target, kb))
            if newer_ptx and driver and _is_too_old_for_torch(driver, torch, kb):
                continue  # ED101 speaks first: under the driver that torch needs the PTX may well do
            what, why = ("only PTX", ", too new for the driver") if newer_ptx else ("no code", "")
            yield Finding(
                message=f"{extension.name} has {what} for {devices}{why}: its kernels fail there",
                evidence=(*devices.evidence, *extension.evidence, *newer_ptx),
                remedy=extension_remedy(extension, (devices.compute_capability, *devices.beside), installed, kb),
                gpus=devices.indices,
            )

    yield from judge_devices(gpus, variables, judge)


def _name_newer_ptx(extension: DistributionCoverage, target: Target, kb: KnowledgeBase) -> Iterator[Evidence]:
    """Say so where the driver is what stands between the extension and its PTX."""
    any_driver = Target(compute_capability=target.compute_capability)
    if any(cover(one.code, any_driver, kb).jit for one in extension.libraries):
        yield Evidence(source="driver", value=f"compiles PTX up to {target.ptx_isa}; that of the library is newer")


def _is_too_old_for_torch(driver: Driver, torch: TorchBuild | None, kb: KnowledgeBase) -> bool:
    cuda = torch.build_cuda_version if torch else None
    release = driver.release_version
    return cuda is not None and isinstance(release, DriverRelease) and kb.driver_runs(release, cuda) is False
