"""A torch whose files and metadata disagree, or that is not the only one."""

from collections.abc import Iterator

from envdoctor.model.facts import Distribution, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule


@rule("ED001", Severity.WARNING, "the torch of this environment is damaged, or is not the only one")
def doubtful_torch(
    torch: TorchBuild,
    loader: Loader | None = None,
    distributions: tuple[Distribution, ...] = (),
    shadowed_modules: tuple[ShadowedModule, ...] = (),
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
    if not _is_told_elsewhere(distributions, shadowed_modules):
        oddities += _describe_rivals(torch)
    if oddities:
        yield Finding(
            message=f"torch {torch.version} in `{torch.root}` is damaged, or is not the only one",
            evidence=tuple(Evidence(source="files of torch", value=oddity) for oddity in oddities),
            remedy=Remedy(summary="uninstall torch until there is none, delete what is left, and install it again"),
        )


def _is_told_elsewhere(distributions: tuple[Distribution, ...], shadowed_modules: tuple[ShadowedModule, ...]) -> bool:
    """Whether the rules about overridden distributions and hidden modules speak of the torch behind this one."""
    by_path = {one.metadata_path: one for one in distributions}
    pairs = ((by_path.get(one.shadowed_by), one) for one in distributions if one.name == "torch")
    is_overridden = any(winner and winner.version != loser.version for winner, loser in pairs)
    return is_overridden or any(module.name == "torch" for module in shadowed_modules)


def _describe_rivals(torch: TorchBuild) -> Iterator[str]:
    for rival in torch.rivals:
        yield f"a second torch lies in `{rival}`, behind the one in `{torch.root}`"
