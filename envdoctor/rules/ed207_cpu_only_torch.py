"""torch is a CPU build beside an NVIDIA GPU."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.facts import (
    Distribution,
    Driver,
    Environment,
    Gpu,
    Host,
    MetadataKind,
    TorchBuild,
    TorchFlavour,
    Variable,
)
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._devices import capabilities_of, describe_gpus


@rule("ED207", Severity.ERROR, "torch is a CPU build")
def cpu_only_torch(
    torch: TorchBuild,
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    driver: Driver | None = None,
    host: Host | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    The installed torch was built without CUDA and uses no GPU. `torch.cuda.is_available()` is False, and `.cuda()`
    fails with `AssertionError: Torch not compiled with CUDA enabled`. Code that asks first runs on the CPU, slowly and
    without a word.

    ## How envdoctor knows
    `torch/version.py` has `cuda = None`. The version in the metadata does not tell: it is 2.14.1 for the CPU build of
    one index and for the CUDA build of another. A GPU is visible, or was named with `--gpu`.

    ## Why it happens
    pip took the wheel from an index or for a platform whose default is the CPU build. conda fell back to it because
    there is no build for the `cudatoolkit` that was asked for, or because of a left-over `cpuonly` package. Or another
    `pip install` replaced torch.

    ## How to fix it
    Install the CUDA build by its exact name, with its index. With conda, remove `cpuonly` and torch first. To install
    the CUDA toolkit or `cudatoolkit` afterwards does nothing.

    ## When to ignore it
    When the job is meant to run on the CPU. `CUDA_VISIBLE_DEVICES=""` says so.
    """
    if torch.flavour is not TorchFlavour.CPU:
        yield NotApplicable(f"torch is built for {torch.flavour.value}")
        return
    visible = find_visible_gpus(gpus, variables).gpus
    if not visible:
        yield NotApplicable("no GPU is visible")
        return
    capabilities = capabilities_of(visible)
    wish = capabilities and TorchWish(
        installed=torch,
        capability=capabilities[0],
        beside=capabilities[1:],
        environment=environment,
        distributions=distributions,
        driver=driver,
        host=host,
    )
    yield Finding(
        message=f"torch {torch.version} is a CPU build and cannot use {describe_gpus(visible)}",
        evidence=(
            Evidence(source="torch/version.py", value=f"{torch.version}, cuda = None"),
            *_conda_evidence(distributions),
            *dict.fromkeys(Evidence(source=gpu.source, value=gpu.name) for gpu in visible),
        ),
        remedy=find_torch_remedy(wish, kb) if wish else None,
        gpus=tuple(gpu.index for gpu in visible),
    )


def _conda_evidence(distributions: tuple[Distribution, ...]) -> Iterator[Evidence]:
    for one in distributions:
        if one.metadata_kind is not MetadataKind.CONDA_META:
            continue
        what = f"{one.name} {one.version} {one.build}".rstrip()
        if one.name in {"cpuonly", "pytorch-cpu"} or (one.name, one.build) == ("pytorch-mutex", "cpu"):
            yield Evidence(source="conda-meta", value=f"{what}, which makes conda choose CPU builds")
        elif one.name in {"pytorch", "libtorch"} and "cpu" in one.build:
            yield Evidence(source="conda-meta", value=what)
