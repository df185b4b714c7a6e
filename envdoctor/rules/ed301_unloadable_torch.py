"""The dynamic loader refuses torch itself."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Severity
from envdoctor.model.loading import Loader, LoadFailure, LoadFault
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import short_path
from envdoctor.rules._load_causes import Cause, find_cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import Trouble, describe_cause, remedy_for_torch, tell_of_torch


@rule("ED301", Severity.ERROR, "torch cannot be loaded")
def unloadable_torch(
    loader: Loader,
    torch: TorchBuild,
    kb: KnowledgeBase,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    host: Host | None = None,
) -> Conclusions:
    """
    ## What it means
    `import torch` fails: `libcublas.so.11: cannot open shared object file: No such file or directory`,
    `libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent`, or the like.

    ## How envdoctor knows
    The dynamic loader is the part of the system (glibc's `ld.so`) that opens compiled libraries for Python, and says
    such things. envdoctor does from files what it does when the interpreter imports torch, with the libraries that
    `torch/__init__.py` opens first. A file that wins through LD_LIBRARY_PATH is the business of ED306.

    ## Why it happens
    A wheel that torch needs is missing or of another version: pip was told `--no-deps`, or uninstalling `nvidia-*-cu11`
    took files with it that `nvidia-*-cu12` has in the same folder. With conda, MKL 2024.1 dropped a symbol that builds
    of torch up to 2.2 need.

    ## How to fix it
    Install the missing wheel in exactly the version that torch's metadata name, or torch with all that it needs. With
    conda's torch pin `mkl<2024.1`. `pip uninstall nvidia-cublas-cu11`, which is often copied, leaves torch on whatever
    cuBLAS the system has, or on none.

    ## When to ignore it
    When torch is not used.
    """
    if loader.torch is None:
        return
    cause = find_cause(loader.torch, loader)
    if cause is Cause.OVERRIDDEN:
        return
    scene = Scene(
        loader=loader,
        kb=kb,
        torch=torch,
        environment=environment,
        distributions=distributions,
        device_code=device_code,
        host=host,
    )
    trouble = Trouble(
        who=f"torch {torch.version}",
        distribution="torch",
        failures=(loader.torch,),
        library=loader.torch.file,
        needs_torch=True,
        scene=scene,
    )
    yield Finding(
        message=f"`import torch` fails: {tell_of_torch(cause, trouble)}",
        evidence=(
            Evidence(source="import torch", value=loader.torch.words),
            *_say_who_needs(loader.torch),
            *describe_cause(cause, trouble),
        ),
        remedy=remedy_for_torch(cause, trouble),
    )


def _say_who_needs(failure: LoadFailure) -> Iterator[Evidence]:
    """Name the file that needs a missing library, which the loader does not say."""
    if failure.fault is LoadFault.LIBRARY and failure.file:
        yield Evidence(source="needed by", value=short_path(failure.file))
