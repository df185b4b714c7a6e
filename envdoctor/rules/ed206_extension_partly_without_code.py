"""Some kernels of an installed extension have no machine code for the GPU, others have."""

from collections.abc import Iterable

from envdoctor.kb import Coverage, KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Driver, Gpu, Host, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import (
    Installed,
    LibraryCoverage,
    Target,
    count,
    cover_extensions,
    first_few,
    newest_ptx_isa,
    short_path,
    without_special_code,
)
from envdoctor.rules._devices import Devices, judge_devices

# Less is what every large library has: kernels that need a newer GPU and are not asked for on others.
_SHARE_WORTH_TELLING = 0.2


@rule("ED206", Severity.INFO, "some kernels of an extension have no machine code for this GPU")
def extension_partly_without_code(
    device_code: tuple[DeviceCode, ...],
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    torch: TorchBuild | None = None,
    driver: Driver | None = None,
    host: Host | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    A package works on this GPU, but part of its kernels do not: they have code for other GPUs only, and fail when they
    are launched, or PTX that the driver compiles at first use.

    ## How envdoctor knows
    It counts the kernel containers of each library by what they hold: machine code that runs on the GPU, PTX, or
    neither, and speaks when more than a fifth have none. Containers with nothing but code for one exact GPU (sm_90a),
    one family (sm_100f) or older GPUs are left out: those kernels were written for them and have others beside them.

    ## Why it happens
    Parts of the package need a newer GPU, or were compiled for other architectures than the rest: spconv 2.3.8 has
    195 of 606 containers with nothing but sm_52 and PTX for it.

    ## How to fix it
    Nothing, as long as the job works. Otherwise build the package with `TORCH_CUDA_ARCH_LIST` set for this GPU.

    ## When to ignore it
    When the features that the job uses work.
    """
    installed = Installed(torch=torch, distributions=distributions, variables=variables)
    ptx_isa = newest_ptx_isa(driver, host, kb)

    def judge(devices: Devices) -> Conclusions:
        target = Target(compute_capability=devices.compute_capability, ptx_isa=ptx_isa)
        for extension in cover_extensions(device_code, installed, target, kb):
            partly = [(one, without_special_code(one, target, kb)) for one in extension.libraries]
            affected = [(one, coverage) for one, coverage in partly if _is_worth_telling(coverage)]
            if not extension.total.native or not affected:
                continue
            yield Finding(
                message=f"some kernels of {extension.name} have no machine code for {devices}",
                evidence=(*devices.evidence, *first_few([_describe(one, coverage) for one, coverage in affected])),
                remedy=_remedy(coverage for _, coverage in affected),
                gpus=devices.indices,
            )

    yield from judge_devices(gpus, variables, judge)


def _is_worth_telling(coverage: Coverage) -> bool:
    return coverage.jit + coverage.none > _SHARE_WORTH_TELLING * count(coverage)


def _remedy(coverages: Iterable[Coverage]) -> Remedy:
    if any(coverage.none for coverage in coverages):
        return Remedy(summary="none is needed, unless the job uses those kernels")
    return Remedy(summary="none is needed; a ~/.nv/ComputeCache that is kept spares the driver compiling them again")


def _describe(library: LibraryCoverage, coverage: Coverage) -> Evidence:
    parts = [f"{coverage.jit} have only PTX"] if coverage.jit else []
    parts += [f"{coverage.none} have neither machine code nor PTX"] if coverage.none else []
    return Evidence(
        source=short_path(library.code.library), value=f"of {count(coverage)} kernel containers {', '.join(parts)}"
    )
