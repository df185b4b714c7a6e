"""A job that is started in the current folder imports a package of it that is installed as well."""

from envdoctor.model.finding import Finding, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._namesakes import STANDARD_LIBRARY, list_evidence, name_all


@rule("ED011", Severity.INFO, "a package in the current folder is imported instead of the installed one")
def namesake_in_current_folder(shadowed_modules: tuple[ShadowedModule, ...]) -> Conclusions:
    """
    ## What it means
    The current folder holds a package of the same name as an installed one. A job that is started here imports the one
    in the folder; a script that lies elsewhere imports the installed one.

    ## How envdoctor knows
    It compares the names in the folder that it was started in with those on the search path.

    ## Why it happens
    The folder is a checkout of a project that is also installed, perhaps from another checkout. Or the project has a
    package `datasets` or `evaluate` of its own, and somebody else's is installed.

    ## How to fix it
    Install the checkout that you work in with `pip install -e .`, so that both are one; or rename the package.

    ## When to ignore it
    When you know which of the two the job imports.
    """
    modules = tuple(
        module
        for module in shadowed_modules
        if module.origin == "current folder" and not module.lost and module.hidden_origin != STANDARD_LIBRARY
    )
    if modules:
        yield Finding(
            message=f"the current folder has {name_all(modules)}, which {'is' if len(modules) == 1 else 'are'} also "
            "installed",
            evidence=tuple(list_evidence(modules)),
            remedy=Remedy(
                summary="install the checkout that you work in with `pip install -e .`, or rename the package"
            ),
        )
