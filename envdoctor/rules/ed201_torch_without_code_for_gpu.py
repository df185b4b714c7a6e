"""torch has neither machine code nor PTX that runs on the GPU."""

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.facts import DeviceCode, Distribution, Driver, Environment, Gpu, Host, TorchBuild, Variable
from envdoctor.model.finding import Finding, NotApplicable, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import Target, why_unsettled
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._torch_code import Way, judge_torch, not_for_cuda


@rule("ED201", Severity.ERROR, "torch has no code for this GPU")
def torch_without_code_for_gpu(
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
    This build of torch holds machine code (SASS) for other GPUs only, and no PTX that the driver could compile for
    this one. `torch.cuda.is_available()` is still True and tensors can be moved to the GPU. The first kernel then
    fails with `CUDA error: no kernel image is available for execution on the device`; torch also warns that the GPU
    `with CUDA capability sm_120 is not compatible with the current PyTorch installation`.

    ## How envdoctor knows
    It reads the list that `torch.cuda.get_arch_list()` returns from the bytes of torch's libraries, and counts the
    kernel containers in them. The GPU's compute capability comes from NVML or from the name of the card. Machine code
    runs within its major version on devices of the same or a higher minor version: sm_86 code runs on 8.9, sm_80 code
    on 8.6. PTX runs on every later device. Nothing is imported and nothing runs on the GPU. torch's own warning is not
    a reference: it looks at the major version alone.

    ## Why it happens
    The wheel is older than the card, or was built with a CUDA version that does not know it. Or the card is older:
    the default builds from 2.8 on have no code for Maxwell and Pascal, those from 2.11 on none for Volta.

    ## How to fix it
    Install a build for another CUDA version, of the same torch release where there is one, and else the nearest
    release. A newer driver or a system-wide CUDA toolkit changes nothing: the code is missing in torch itself.

    ## When to ignore it
    When the job does not use this GPU.
    """
    if reason := not_for_cuda(torch):
        yield NotApplicable(reason)
        return

    def judge(devices: Devices) -> Conclusions:
        code = judge_torch(torch, device_code, Target(compute_capability=devices.compute_capability), kb)
        if code.way is Way.UNKNOWN:
            yield Undecided(f"whether torch has code for {devices}: {code.reason}", devices.indices)
        if code.way is not Way.NONE:
            return
        archs = torch.arch_list if isinstance(torch.arch_list, tuple) else ()
        if why := why_unsettled(archs, devices.compute_capability, torch, driver, kb):
            yield Undecided(f"whether torch has code for {devices}: {why}", devices.indices)
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
            message=f"torch {torch.version} has no code for {devices}: every kernel fails there",
            evidence=(*devices.evidence, *code.evidence),
            remedy=find_torch_remedy(wish, kb),
            gpus=devices.indices,
        )

    yield from judge_devices(gpus, variables, judge)
