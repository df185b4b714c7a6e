"""torch's kernels reach the GPU only as PTX of a version that the driver cannot compile."""

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.facts import DeviceCode, Distribution, Driver, Environment, Gpu, Host, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._coverage import Target, newest_ptx_isa
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._torch_code import Way, judge_torch, not_for_cuda


@rule("ED203", Severity.ERROR, "torch's only code for this GPU is PTX that is too new for the driver")
def ptx_newer_than_driver(
    torch: TorchBuild,
    gpus: tuple[Gpu, ...],
    driver: Driver,
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    host: Host | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    This build of torch has no machine code for the GPU, and its PTX is written in a newer version of the language than
    the driver compiles. Every kernel fails with `the provided PTX was compiled with an unsupported toolchain`.

    ## How envdoctor knows
    PTX carries its version, and each CUDA toolkit writes its own. A driver compiles PTX up to the version of the CUDA
    it came with. Minor-version compatibility, which lets a 525 driver run every CUDA 12, does not extend to PTX.
    Source: https://docs.nvidia.com/deploy/cuda-compatibility/

    ## Why it happens
    The torch build is for an older GPU, but was made with a newer CUDA than the driver's.

    ## How to fix it
    Install a build with machine code for the GPU, or use a host with a newer driver.

    ## When to ignore it
    When the job does not use this GPU.
    """
    if reason := not_for_cuda(torch):
        yield NotApplicable(reason)
        return
    ptx_isa = newest_ptx_isa(driver, host, kb)
    if ptx_isa is None:
        yield NotApplicable("which PTX the driver compiles is not known")
        return

    def judge(devices: Devices) -> Conclusions:
        target = Target(compute_capability=devices.compute_capability, ptx_isa=ptx_isa)
        code = judge_torch(torch, device_code, target, kb)
        if code.way is Way.UNKNOWN:
            yield NotApplicable("which code torch has is not known: see ED201")
        if code.way is not Way.NEWER_PTX:
            return
        wish = TorchWish(
            installed=torch,
            capability=devices.compute_capability,
            beside=devices.beside,
            environment=environment,
            distributions=distributions,
            device_code=device_code,
            driver=driver,
            host=host,
        )
        yield Finding(
            message=f"torch {torch.version} has only PTX for {devices}, and {_describe(driver)} cannot compile it",
            evidence=(
                *devices.evidence,
                *code.evidence,
                Evidence(source=driver.source, value=f"{_describe(driver)} compiles PTX up to {ptx_isa}"),
            ),
            remedy=find_torch_remedy(wish, kb),
            gpus=devices.indices,
        )

    yield from judge_devices(gpus, variables, judge)


def _describe(driver: Driver) -> str:
    release = driver.release_version
    return f"driver {release}" if isinstance(release, DriverRelease) else f"the driver (CUDA {driver.cuda_version})"
