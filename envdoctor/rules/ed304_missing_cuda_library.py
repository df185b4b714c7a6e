"""A compiled extension needs a library of CUDA or torch that no process of the environment finds."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED304", Severity.ERROR, "an extension needs a library of CUDA or torch that is not there")
def missing_cuda_library(
    loader: Loader,
    kb: KnowledgeBase,
    torch: TorchBuild | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    host: Host | None = None,
) -> Conclusions:
    """
    ## What it means
    The loader says `libcudart.so.11.0: cannot open shared object file`, `libtorch_cuda_cu.so: cannot open shared object
    file` or `libc10_cuda.so: ...`, and the import fails. Or the library is there and too old for what is asked of it.

    ## How envdoctor knows
    It searches as the dynamic loader does in a process that has imported torch: what is already loaded, the folders
    that a library names itself (RPATH before LD_LIBRARY_PATH, RUNPATH after it), the loader's cache, the system's
    folders. Libraries that the package itself opens first, and that are there, are not counted as missing.

    ## Why it happens
    The extension was built for another major version of CUDA than torch: a wheel for cu118 beside a torch for cu121. Or
    for another kind of torch: `libtorch_cuda_cu.so` exists only in builds for CUDA 11 of torch 1.8 to 1.13, and
    `libc10_cuda.so` in no build for the CPU.

    In a process that has not imported torch, `libc10.so: cannot open shared object file` and
    `undefined symbol: THPVariableClass` only mean that `import torch` has to come before the import of the extension,
    which finds torch's libraries where they are already loaded.

    ## How to fix it
    Import torch first. Install the build of the extension for torch's CUDA, or build it anew beside this torch. Do not
    put the missing CUDA on LD_LIBRARY_PATH: the process then has two CUDA runtimes. Do not link another library to the
    missing name (`libtorch_cuda_cu.so` to `libtorch_cuda.so`): its symbols are not in there.

    ## When to ignore it
    When the job does not use the package, or its own code loads the library first.
    """
    scene = Scene(
        loader=loader,
        kb=kb,
        torch=torch,
        environment=environment,
        distributions=distributions,
        device_code=device_code,
        host=host,
    )
    yield from conclude_cause(Cause.CUDA_OR_TORCH, scene)
