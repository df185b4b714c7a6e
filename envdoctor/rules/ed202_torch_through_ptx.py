"""torch's kernels reach the GPU only as PTX, which the driver compiles at first use."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.facts import DeviceCode, Distribution, Driver, Environment, Gpu, Host, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import Target, newest_ptx_isa
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._torch_code import Way, judge_torch, not_for_cuda


@rule("ED202", Severity.WARNING, "torch runs through PTX that the driver compiles")
def torch_through_ptx(
    torch: TorchBuild,
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    driver: Driver | None = None,
    host: Host | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    This build of torch has no machine code for the GPU, but PTX that the driver compiles. The first `.cuda()` seems to
    hang for 2 to 10 minutes. The result is cached in `~/.nv/ComputeCache`, unless the cache is too small or the
    container is fresh. cuBLAS and cuDNN of that CUDA version do not know the GPU either: with CUDA 10.2 and older on
    GPUs of compute capability 8.x many jobs then fail with `CUBLAS_STATUS_EXECUTION_FAILED`.

    ## How envdoctor knows
    None of the `sm_` entries of torch's arch list runs on the GPU, a `compute_` entry does: PTX runs on every device
    of its version and later (CUDA C++ Programming Guide, "PTX Compatibility").

    ## Why it happens
    The wheel is older than the card: those up to torch 1.5 carry PTX for 3.7 or 5.0.

    ## How to fix it
    Install a build with machine code for the GPU. Where that cannot be, keep `~/.nv/ComputeCache` between runs and
    set `CUDA_CACHE_MAXSIZE=4294967296`. It is not a hang: a reboot only makes the driver start again.

    ## When to ignore it
    When the job runs for days, does not fail in cuBLAS, and the cache is kept.
    """
    if reason := not_for_cuda(torch):
        yield NotApplicable(reason)
        return
    ptx_isa = newest_ptx_isa(driver, host, kb)

    def judge(devices: Devices) -> Conclusions:
        target = Target(compute_capability=devices.compute_capability, ptx_isa=ptx_isa)
        code = judge_torch(torch, device_code, target, kb)
        if code.way is Way.UNKNOWN:
            yield NotApplicable("which code torch has is not known: see ED201")
        if code.way is not Way.PTX:
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
            message=f"torch {torch.version} has only PTX for {devices}: the driver compiles it at first use, "
            "which takes minutes",
            evidence=(*devices.evidence, *code.evidence, *_old_libraries(torch, devices, kb)),
            remedy=find_torch_remedy(wish, kb),
            gpus=devices.indices,
        )

    yield from judge_devices(gpus, variables, judge)


def _old_libraries(torch: TorchBuild, devices: Devices, kb: KnowledgeBase) -> Iterator[Evidence]:
    first = kb.first_toolkit(devices.compute_capability)
    built_with = torch.build_cuda_version
    if first and built_with and built_with < first:
        yield Evidence(
            source=f"CUDA {built_with}",
            value=f"its cuBLAS and cuDNN may fail: the first CUDA that knows {devices.compute_capability} is {first}",
        )
