"""The kernels of an installed extension reach the GPU only as PTX, which the driver compiles at first use."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Driver, Environment, Gpu, Host, TorchBuild, Variable
from envdoctor.model.finding import Finding, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import Installed, Target, cover_extensions, newest_ptx_isa
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._rebuild import extension_remedy


@rule("ED205", Severity.WARNING, "an extension runs through PTX that the driver compiles")
def extension_through_ptx(
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
    A package with compiled CUDA kernels has no machine code for the GPU, but PTX, which the driver compiles when the
    library is first used. That takes seconds to minutes, again in every fresh container, and code that was written for
    an older GPU leaves features of the newer one unused.

    ## How envdoctor knows
    It reads the kernel containers of every library of the package. None holds machine code that runs on the GPU, some
    hold PTX that the driver can compile.

    ## Why it happens
    The package was built for older GPUs, or without naming any: nvcc then compiles for its default, 5.2.

    ## How to fix it
    Build it for this GPU with `TORCH_CUDA_ARCH_LIST`, or install a newer release. Otherwise keep `~/.nv/ComputeCache`
    between runs.

    ## When to ignore it
    When the job does not use the package, or runs for hours and keeps the cache.
    """
    installed = Installed(torch=torch, distributions=distributions, environment=environment, variables=variables)
    ptx_isa = newest_ptx_isa(driver, host, kb)

    def judge(devices: Devices) -> Conclusions:
        target = Target(compute_capability=devices.compute_capability, ptx_isa=ptx_isa)
        for extension in cover_extensions(device_code, installed, target, kb):
            if extension.total.native or not extension.total.jit:
                continue
            yield Finding(
                message=f"{extension.name} has only PTX for {devices}: the driver compiles it at first use",
                evidence=(*devices.evidence, *extension.evidence),
                remedy=extension_remedy(extension, (devices.compute_capability, *devices.beside), installed, kb),
                gpus=devices.indices,
            )

    yield from judge_devices(gpus, variables, judge)
