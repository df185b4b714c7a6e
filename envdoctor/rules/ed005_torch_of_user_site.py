"""The environment has no torch of its own, and takes the one of the user site."""

from envdoctor.kb.torch_choice import pip_install
from envdoctor.model.facts import Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import USER_SITE, folders_of
from envdoctor.rules._reinstall import requirement_of


@rule("ED005", Severity.WARNING, "torch is not of the environment, but of the user site")
def torch_of_user_site(environment: Environment, torch: TorchBuild) -> Conclusions:
    """
    ## What it means
    The environment has no torch. `import torch` works all the same, because the interpreter also searches the folder of
    `pip install --user`. Every environment of this Python version shares that torch, and whoever updates it for one of
    them updates it for all.

    ## How envdoctor knows
    The first folder `torch` on the search path lies in the user site.

    ## Why it happens
    `pip install torch` was run outside of the environment, by another pip than the environment's, or where its
    site-packages were not writable: pip falls back to the user site.

    ## How to fix it
    Install torch into the environment, with `PYTHONNOUSERSITE=1`: without it, pip finds the requirement satisfied.

    ## When to ignore it
    When you share one torch between environments on purpose.
    """
    if environment.kind == "system":
        yield NotApplicable("a system's Python is meant to search the user site")
        return
    folder = next((folder for folder in folders_of(environment, USER_SITE) if torch.root == f"{folder}/torch"), "")
    if folder and not torch.rivals:
        yield Finding(
            message=f"torch {torch.version} is not of the environment `{environment.prefix}`, but of the user site",
            evidence=(
                Evidence(source="torch", value=torch.root),
                Evidence(source=f"search path of {environment.kind}", value=f"the user site `{folder}` is searched"),
            ),
            remedy=Remedy(
                summary="install torch into the environment, without the user site, which would satisfy pip",
                commands=(
                    "export PYTHONNOUSERSITE=1",
                    f"{pip_install(environment)} {requirement_of('torch', torch.version)}",
                ),
            ),
        )
