"""A package in the current folder or on PYTHONPATH comes before an installed one of its name."""

from envdoctor.model.facts import Distribution
from envdoctor.model.finding import Finding, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._namesakes import is_poorer, list_evidence, name_all, without_overrides
from envdoctor.rules._overrides import PYTHONPATH


@rule("ED011", Severity.INFO, "a package of the current folder or PYTHONPATH has the name of an installed one")
def preceding_namesake(
    shadowed_modules: tuple[ShadowedModule, ...], distributions: tuple[Distribution, ...] = ()
) -> Conclusions:
    """
    ## What it means
    A package has the same name as one further down the search path, and is imported instead: that of a folder on
    `PYTHONPATH` always, that of the current folder by a job that is started there. A script that lies elsewhere imports
    the installed one.

    ## How envdoctor knows
    It compares the names in the folder that it was started in, and in those on `PYTHONPATH`, with those that follow.

    ## Why it happens
    The folder is a checkout of a project that is also installed, perhaps from another checkout. Or the project has a
    package `datasets` or `utils` of its own, and somebody else's is installed.

    ## How to fix it
    Install the checkout that you work in with `pip install -e .`, so that both are one; or rename the package.

    ## When to ignore it
    When you know which of the two the job imports.
    """
    modules = without_overrides((module for module in shadowed_modules if not is_poorer(module)), distributions)
    for origin in dict.fromkeys(module.origin for module in modules):
        here = tuple(module for module in modules if module.origin == origin)
        place = f"on {origin}" if origin == PYTHONPATH else f"in the {origin}"
        yield Finding(
            message=f"{name_all(here)} {place} come{'s' * (len(here) == 1)} before what is installed",
            evidence=tuple(list_evidence(here)),
            remedy=Remedy(
                summary="install the checkout that you work in with `pip install -e .`, or rename the package"
            ),
        )
