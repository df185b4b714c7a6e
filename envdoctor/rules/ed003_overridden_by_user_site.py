"""The user site brings another version of what the environment has, and wins."""

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import (
    USER_SITE,
    describe_overrides,
    find_overrides,
    folders_of,
    leave_out_user_site,
    list_evidence,
)


@rule("ED003", Severity.WARNING, "distributions of the user site are imported instead of the environment's own")
def overridden_by_user_site(environment: Environment, distributions: tuple[Distribution, ...]) -> Conclusions:
    """
    ## What it means
    The folder of `pip install --user` comes before the environment's own on the search path, and holds another version
    of something that is installed in both. The job runs the user's version, whatever the environment was made with.
    There is no message: results differ from what `conda list` promises, or a compiled extension does not fit.

    ## How envdoctor knows
    It puts the search path together as the interpreter does, and compares the metadata in its folders. conda
    environments and installed Pythons search the user site before their own packages; a venv does not search it, unless
    it was made with `--system-site-packages`, and then after its own.

    ## Why it happens
    Somebody once ran `pip install --user`, or a plain `pip install` where the site-packages were not writable: pip
    falls back to the user site. In a container the home directory of the host may be mounted over its own.

    ## How to fix it
    Set `PYTHONNOUSERSITE=1` for the job. To reinstall the distribution in the environment changes nothing: the copy in
    the user site still comes first.

    ## When to ignore it
    When the version of the user site is the one that is wanted.
    """
    folders = folders_of(environment, USER_SITE)
    if not folders:
        yield NotApplicable("the interpreter does not search a user site")
        return
    if overrides := find_overrides(distributions, environment, USER_SITE):
        yield Finding(
            message=f"the user site puts {describe_overrides(overrides)} before the environment's own",
            evidence=tuple(list_evidence(overrides)),
            remedy=Remedy(
                summary="let Python leave the user site out; to reinstall in the environment changes nothing, the user "
                "site still comes first",
                commands=leave_out_user_site(environment),
            ),
        )
