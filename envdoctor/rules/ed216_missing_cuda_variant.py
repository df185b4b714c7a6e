"""bitsandbytes has no library for the CUDA version that it looks for."""

from collections.abc import Iterator

from envdoctor.model.bitsandbytes import DISTRIBUTION, VARIABLE, Choice, choose, dotted, ends_import, nearest
from envdoctor.model.facts import DeviceCode, Distribution, Gpu, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.model.wording import enumerate_all


@rule("ED216", Severity.WARNING, "bitsandbytes has no library for the CUDA version in use")
def missing_cuda_variant(
    torch: TorchBuild,
    device_code: tuple[DeviceCode, ...],
    distributions: tuple[Distribution, ...],
    gpus: tuple[Gpu, ...],
    variables: tuple[Variable, ...] = (),
) -> Conclusions:
    """
    ## What it means
    bitsandbytes brings a library for each of several CUDA versions and loads the one for torch's. It has none for this
    one, so it falls back to its library for the CPU. `import bitsandbytes` says
    `The installed version of bitsandbytes was compiled without GPU support`, and loading a model in 4 or 8 bits fails.
    Before release 0.43 the import itself fails: `CUDA Setup failed despite GPU being available`.

    ## How envdoctor knows
    It lists the files `libbitsandbytes_cuda*.so` and looks for the number of the CUDA version in `torch/version.py`, or
    the one in `BNB_CUDA_VERSION`. From release 0.50 on another version of the same major takes its place, unless the
    variable names one.

    ## Why it happens
    bitsandbytes is older than the CUDA that torch was built with, or so new that it left that out. Or the variable was
    set for another torch.

    ## How to fix it
    Install a release of bitsandbytes for that CUDA version, or let it load a library for the same major version with
    `BNB_CUDA_VERSION`: torch brings the runtime that it needs. To add folders to `LD_LIBRARY_PATH` does not help.

    ## When to ignore it
    When the job does not use bitsandbytes.
    """
    if not find_visible_gpus(gpus, variables).gpus:
        yield NotApplicable("no GPU is visible")
        return
    installed = next((one for one in distributions if one.name == DISTRIBUTION and not one.shadowed_by), None)
    own = [code.library for code in device_code if code.distribution == DISTRIBUTION]
    choice = choose(own, torch, installed.version, variables) if installed else None
    if installed is None or choice is None:
        yield NotApplicable("no bitsandbytes beside a torch with CUDA")
        return
    if choice.loaded:
        return
    asking = f"{VARIABLE} asks for" if choice.by_variable else f"torch {torch.version} was built with"
    yield Finding(
        message=f"bitsandbytes {installed.version} has no library for CUDA {dotted(choice.wanted)}, which {asking}: "
        f"{'importing it fails' if ends_import(installed.version) else 'its GPU functions fail'}",
        evidence=tuple(_show(torch, choice)),
        remedy=_remedy(choice),
    )


def _show(torch: TorchBuild, choice: Choice) -> Iterator[Evidence]:
    yield Evidence(source="torch/version.py", value=f"CUDA {torch.build_cuda_version}")
    if choice.by_variable:
        yield Evidence(source="environment", value=f"{VARIABLE}={choice.wanted}")
    listed = f"for CUDA {enumerate_all(map(dotted, choice.available))}" if choice.available else "none for CUDA"
    yield Evidence(source="libraries of bitsandbytes", value=listed)


def _remedy(choice: Choice) -> Remedy:
    if choice.by_variable:
        return Remedy(summary="let it choose by the CUDA version of torch", commands=(f"unset {VARIABLE}",))
    release = f"install a release of bitsandbytes that has a library for CUDA {dotted(choice.wanted)}"
    substitute = nearest(choice.wanted, choice.available)
    if substitute is None:
        return Remedy(summary=release)
    return Remedy(
        summary=f"{release}, or let it load the one for {dotted(substitute)}",
        commands=(f"export {VARIABLE}={substitute}",),
    )
