"""What is left of a torch that was removed: Python imports the folder, and finds nothing in it."""

import shlex

from envdoctor.model.facts import Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._reinstall import reinstall


@rule("ED002", Severity.ERROR, "`import torch` finds a folder without `__init__.py`")
def torch_without_init(torch: TorchBuild, environment: Environment | None = None) -> Conclusions:
    """
    ## What it means
    There is a folder `torch`, but no `__init__.py` in it. Python takes it for a namespace package: `import torch` works
    and brings an empty module. The job ends with `AttributeError: module 'torch' has no attribute ...`, or with
    `ImportError: cannot import name 'nn' from 'torch' (unknown location)`.

    ## How envdoctor knows
    It looks for the folders that the examined interpreter would search, in order. None of them holds a whole torch.

    ## Why it happens
    An uninstallation was interrupted, the disk was full, or files that no installer knows (of a build of one's own, of
    a `pip install --target`) were left where torch had been. conda removes its torch and leaves what pip had written
    into the same folder.

    ## How to fix it
    Delete the folder, and install torch again. `pip install torch` alone does nothing while its metadata are there.

    ## When to ignore it
    Never, if the job imports torch.
    """
    if torch.has_init:
        return
    yield Finding(
        message=f"`import torch` finds `{torch.root}`, which has no `__init__.py`, and imports nothing",
        evidence=(
            Evidence(source=torch.root, value="no __init__.py: a namespace package to Python, without any attribute"),
        ),
        remedy=Remedy(
            summary="delete what is left and install torch again, in the build that you had; without "
            "`--force-reinstall` pip takes it for installed",
            commands=(f"rm -r {shlex.quote(torch.root)}", reinstall("torch", torch.version, environment)),
        ),
    )
