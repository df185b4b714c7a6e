"""PYTHONPATH brings another version of what the environment has, and wins."""

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import (
    PYTHONPATH,
    describe_overrides,
    find_overrides,
    folders_of,
    list_evidence,
    shorten_pythonpath,
)


@rule("ED004", Severity.WARNING, "distributions on PYTHONPATH are imported instead of the environment's own")
def overridden_by_pythonpath(environment: Environment, distributions: tuple[Distribution, ...]) -> Conclusions:
    """
    ## What it means
    A folder of `PYTHONPATH` holds another version of something that is installed in the environment. `PYTHONPATH` comes
    before everything else, in a venv too: the job runs that version, and says nothing.

    ## How envdoctor knows
    It splits `PYTHONPATH` as Python does, and compares the metadata in its folders with those of the environment.

    ## Why it happens
    A line in `~/.bashrc`, the `setup.bash` of another software, or a module of a cluster (`module load`) set the
    variable for everything that is started afterwards.

    ## How to fix it
    Unset `PYTHONPATH` for the job, or take the folder off it. To reinstall the distribution in the environment changes
    nothing: `PYTHONPATH` still comes first.

    ## When to ignore it
    When the folder was put there to replace just this distribution.
    """
    if not folders_of(environment, PYTHONPATH):
        yield NotApplicable("PYTHONPATH names no folder")
        return
    if overrides := find_overrides(distributions, environment, PYTHONPATH):
        places = list(dict.fromkeys(override.winner.location for override in overrides))
        yield Finding(
            message=f"PYTHONPATH puts {describe_overrides(overrides)} before the environment's own",
            evidence=tuple(list_evidence(overrides)),
            remedy=Remedy(
                summary="take the folder off PYTHONPATH; to reinstall in the environment changes nothing, PYTHONPATH "
                "still comes first",
                commands=(shorten_pythonpath(environment, places),),
            ),
        )
