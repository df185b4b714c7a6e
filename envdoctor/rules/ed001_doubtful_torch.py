"""A torch that is not whole, or not the only one."""

from envdoctor.model.facts import TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule


@rule("ED001", Severity.WARNING, "the torch of this environment is damaged, or is not the only one")
def doubtful_torch(torch: TorchBuild) -> Conclusions:
    """
    ## What it means
    What `import torch` finds is not what an installer leaves behind: files are missing or cut off, belong to another
    release or another Python, or another torch stands in front. The import fails, or runs another torch than the
    metadata tell. What else this report says of torch is said of these files.

    ## How envdoctor knows
    It compares `torch/version.py`, the metadata of installed distributions, the names of the extension modules and the
    ends of the libraries with each other. Nothing is imported.

    ## Why it happens
    pip was interrupted and left `~orch`; conda and pip both installed it; a second torch lies in the user site or on
    PYTHONPATH; Git LFS did not fetch; the disk was full.

    ## How to fix it
    Uninstall torch until there is none, delete what is left, and install it again.

    ## When to ignore it
    When you mixed the files on purpose, as a build of your own does.
    """
    if torch.problems:
        yield Finding(
            message=f"torch {torch.version} in `{torch.root}` is damaged, or is not the only one",
            evidence=tuple(Evidence(source="files of torch", value=problem) for problem in torch.problems),
            remedy=Remedy(summary="uninstall torch until there is none, delete what is left, and install it again"),
        )
