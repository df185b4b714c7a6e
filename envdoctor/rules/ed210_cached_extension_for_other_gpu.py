"""An extension in torch's build cache was compiled for another GPU."""

import shlex
from pathlib import PurePosixPath

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Driver, Gpu, Host, JitExtension, LibraryRole, Variable
from envdoctor.model.finding import Finding, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import LibraryCoverage, Target, count, cover, describe_libraries, newest_ptx_isa
from envdoctor.rules._devices import Devices, judge_devices


@rule("ED210", Severity.WARNING, "a cached extension was compiled for another GPU")
def cached_extension_for_other_gpu(
    jit_extensions: tuple[JitExtension, ...],
    device_code: tuple[DeviceCode, ...],
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    driver: Driver | None = None,
    host: Host | None = None,
) -> Conclusions:
    """
    ## What it means
    torch compiles some extensions when they are first used (`torch.utils.cpp_extension.load`) and keeps them. One that
    it keeps has no machine code for this GPU. Where it has PTX the driver compiles that at every start of a fresh
    container, and the kernels run several times slower; where it has none they fail with
    `no kernel image is available for execution on the device`.

    ## How envdoctor knows
    It reads the kernel containers of the libraries in the cache that this torch uses with this Python: the folder
    that `TORCH_EXTENSIONS_DIR` names, or `~/.cache/torch_extensions`.

    ## Why it happens
    The name of the folder has the versions of Python and CUDA in it, not the GPU. A home directory that machines with
    different GPUs share, or a cache that was copied into an image, serves the library of one GPU to another.

    ## How to fix it
    Delete the folder: torch compiles the extension again, which needs `nvcc`. Set `TORCH_EXTENSIONS_DIR` to a folder
    of its own for each kind of GPU.

    ## When to ignore it
    When the job does not use the extension.
    """
    ptx_isa = newest_ptx_isa(driver, host, kb)
    names = {one.library: one.name for one in jit_extensions}
    cached = sorted(
        (code for code in device_code if code.role is LibraryRole.JIT and code.library in names),
        key=lambda code: code.library,
    )

    def judge(devices: Devices) -> Conclusions:
        target = Target(compute_capability=devices.compute_capability, ptx_isa=ptx_isa)
        foreign = []
        for code in cached:
            coverage = cover(code, target, kb)
            if coverage.native:
                continue
            if code.unreadable:
                yield Undecided(f"whether {code.library} has code for {devices}: {code.unreadable}", devices.indices)
            elif count(coverage):
                foreign.append(LibraryCoverage(code=code, coverage=coverage))
        if foreign:
            listed = ", ".join(f"`{names[one.code.library]}`" for one in foreign)
            what = "has only PTX" if all(one.coverage.jit for one in foreign) else "has no code"
            yield Finding(
                message=f"what torch keeps compiled of {listed} {what} for {devices}",
                evidence=(*devices.evidence, *describe_libraries(tuple(foreign))),
                remedy=_remedy([one.code.library for one in foreign]),
                gpus=devices.indices,
            )

    yield from judge_devices(gpus, variables, judge)


def _remedy(libraries: list[str]) -> Remedy:
    folders = sorted({str(PurePosixPath(library).parent) for library in libraries})
    return Remedy(
        summary="delete it, torch compiles it again at first use (with nvcc); where machines with different GPUs share "
        "the folder, set TORCH_EXTENSIONS_DIR to one for each kind",
        commands=(f"rm -r {' '.join(map(shlex.quote, folders))}",),
    )
