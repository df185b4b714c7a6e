"""A file that wins through LD_LIBRARY_PATH or LD_PRELOAD breaks what the environment has."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause, find_cause
from envdoctor.rules._load_overrides import find_old_cudnn
from envdoctor.rules._load_remedies import leave_out
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import Trouble, conclude_cause, describe_cause, find_remedy, tell


@rule("ED306", Severity.ERROR, "another file wins on the search path of libraries and breaks the environment")
def breaking_library_path(
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
    The environment has the right library, and the loader takes another file of that name, which lacks what is asked of
    it: `libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12`, `libcublas.so.11:
    undefined symbol: cublasLtGetStatusString`, `cuDNN version incompatibility: PyTorch was compiled against (8, 7, 0)
    but found runtime version (8, 2, 4)`.

    ## How envdoctor knows
    It follows the search of the dynamic loader for every library, and finds the missing symbol in the file that would
    have been taken otherwise. For cuDNN it compares the versions as `torch/backends/cudnn/__init__.py` does: another
    major, or an older minor version than torch was compiled with, ends the first use.

    ## Why it happens
    A library may name folders where what it needs is to be searched. LD_LIBRARY_PATH is searched after such an RPATH,
    and before a RUNPATH, which the libraries of NVIDIA have: libcublas finds its libcublasLt, and libcusparse its
    libnvJitLink, through RUNPATH. Images with CUDA, modules of clusters and old advice put `/usr/local/cuda/lib64`
    there.

    ## How to fix it
    Take the folder off LD_LIBRARY_PATH; torch brings what it needs. Upgrading the driver does not help.
    `pip uninstall nvidia-cublas-cu11`, which is often copied, leaves torch on the older cuBLAS of the system.

    ## When to ignore it
    When the job runs with other variables than envdoctor did.
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
    if loader.torch is not None and find_cause(loader.torch, loader) is Cause.OVERRIDDEN:
        name = f"torch {torch.version}" if torch else "torch"
        trouble = Trouble(
            who=name,
            distribution="torch",
            failures=(loader.torch,),
            library=loader.torch.file,
            needs_torch=True,
            scene=scene,
        )
        yield Finding(
            message=tell(Cause.OVERRIDDEN, trouble),
            evidence=(
                Evidence(source="import torch", value=loader.torch.words),
                *describe_cause(Cause.OVERRIDDEN, trouble),
            ),
            remedy=find_remedy(Cause.OVERRIDDEN, trouble),
        )
    yield from _judge_cudnn(scene)
    yield from conclude_cause(Cause.OVERRIDDEN, scene)


def _judge_cudnn(scene: Scene) -> Iterator[Finding]:
    if found := find_old_cudnn(scene.loader, scene.torch):
        taken, own = found.library.taken, found.library.own
        yield Finding(
            message=f"{taken.found_through} brings cuDNN {found.runtime}, and torch, compiled with {found.compiled}, "
            "refuses it",
            evidence=(
                Evidence(source=f"taken through {taken.found_through}", value=taken.path),
                Evidence(source="would have been right", value=own),
            ),
            remedy=leave_out(taken, own, scene),
        )
