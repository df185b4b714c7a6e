"""A torch whose files and metadata disagree, or that is not the only one."""

from collections.abc import Iterator

from envdoctor.model.facts import Distribution, Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import OVERRIDING, find_overrides


@rule("ED001", Severity.WARNING, "the torch of this environment is damaged, or is not the only one")
def doubtful_torch(
    torch: TorchBuild,
    loader: Loader | None = None,
    distributions: tuple[Distribution, ...] = (),
    shadowed_modules: tuple[ShadowedModule, ...] = (),
    environment: Environment | None = None,
) -> Conclusions:
    """
    ## What it means
    What `import torch` finds is not what an installer leaves behind: its files belong to another release than the
    metadata tell, or another torch stands in front or behind. The import fails, or runs another torch than `pip list`
    shows. What else this report says of torch is said of these files.

    ## How envdoctor knows
    It compares `torch/version.py`, the metadata of installed distributions and the folders of the search path with each
    other. Nothing is imported. Damaged and missing libraries are told here only where the dynamic loader could not be
    emulated; else its own rules say what becomes of them.

    ## Why it happens
    pip was interrupted; conda and pip both installed it; a second torch lies in another folder of the search path; the
    folder was copied or unpacked by hand; Git LFS did not fetch.

    ## How to fix it
    Uninstall torch until there is none, delete what is left, and install it again.

    ## When to ignore it
    When you mixed the files on purpose, as a build of your own does.
    """
    oddities = [*torch.problems, *(() if loader else torch.library_problems)]
    if not (_is_overridden(distributions, environment) or any(one.name == "torch" for one in shadowed_modules)):
        oddities += _describe_rivals(torch)
    if oddities:
        yield Finding(
            message=f"torch {torch.version} in `{torch.root}` is damaged, or is not the only one",
            evidence=tuple(Evidence(source="files of torch", value=oddity) for oddity in oddities),
            remedy=Remedy(summary="uninstall torch until there is none, delete what is left, and install it again"),
        )


def _is_overridden(distributions: tuple[Distribution, ...], environment: Environment | None) -> bool:
    """Whether the rules about overridden distributions name both versions of torch."""
    overrides = (find_overrides(distributions, environment, origin) if environment else () for origin in OVERRIDING)
    return any(one.winner.name == "torch" for found in overrides for one in found)


def _describe_rivals(torch: TorchBuild) -> Iterator[str]:
    for rival in torch.rivals:
        yield f"a second torch lies in `{rival}`, behind the one in `{torch.root}`"
