"""What the environment needs and does not have comes from outside of it."""

import re
from collections.abc import Iterator

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.requirements import read_demand
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import PYTHONPATH, USER_SITE, folders_of, is_of_environment, written_version

_MOST_NAMED = 10
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


@rule("ED006", Severity.INFO, "the environment relies on distributions from outside of it")
def borrowed_distributions(environment: Environment, distributions: tuple[Distribution, ...]) -> Conclusions:
    """
    ## What it means
    A distribution of the environment requires another one, which is not installed there: the one of the user site or on
    `PYTHONPATH` serves. On another machine, for another user or in a container the environment is not complete.

    ## How envdoctor knows
    It compares what the metadata in the environment require (`Requires-Dist`, without extras) with where the required
    distributions lie.

    ## Why it happens
    When the environment was made, pip found the requirement satisfied by what lay outside, and left it out.

    ## How to fix it
    Install what is missing into the environment, with `PYTHONNOUSERSITE=1` and without `PYTHONPATH`.

    ## When to ignore it
    When these distributions are shared on purpose, as modules of a cluster are.
    """
    outside = {
        folder: origin
        for origin in (USER_SITE, PYTHONPATH)
        for folder in folders_of(environment, origin)
        if origin == PYTHONPATH or environment.kind != "system"
    }
    if not outside:
        yield NotApplicable("nothing outside of the environment is searched")
        return
    own = sorted((one for one in distributions if is_of_environment(one, environment)), key=lambda one: one.name)
    there = [
        one
        for one in distributions
        if one.location in outside
        and not one.shadowed_by
        and (one.name, outside[one.location]) != ("torch", USER_SITE)  # it has a rule of its own
    ]
    offered = {one.name for one in there} - {one.name for one in own}
    required = {name: one.name for one in own for name in _required(one, offered, environment)}
    borrowed = sorted((one for one in there if one.name in required), key=lambda one: one.name)
    if borrowed:
        names = ", ".join(one.name for one in borrowed[:_MOST_NAMED])
        more = f" and {len(borrowed) - _MOST_NAMED} more" if len(borrowed) > _MOST_NAMED else ""
        yield Finding(
            message=f"the environment needs {names}{more}, and does not have {'it' if len(borrowed) == 1 else 'them'}",
            evidence=tuple(
                Evidence(
                    source=f"{outside[one.location]} {one.location}",
                    value=f"{one.name} {written_version(one)}, which {required[one.name]} requires",
                )
                for one in borrowed[:_MOST_NAMED]
            ),
            remedy=Remedy(
                summary="install them into the environment, with PYTHONNOUSERSITE=1 and without PYTHONPATH: what lies "
                "there would satisfy pip"
            ),
        )


def _required(distribution: Distribution, offered: set[str], environment: Environment) -> Iterator[str]:
    """Name what a distribution requires of what is *offered*."""
    for text in distribution.requires:
        written = _NAME.match(text)
        name = re.sub(r"[-_.]+", "-", written[0]).lower() if written else ""
        if name in offered and _applies(text, environment):
            yield name


def _applies(requirement: str, environment: Environment) -> bool:
    try:
        return read_demand(requirement, environment) is not None
    except ValueError:  # pip of its time accepted more than can be read here
        return False
