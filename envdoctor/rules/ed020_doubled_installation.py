"""The environment holds a distribution twice, in two of its own folders."""

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import find_own_doubles, written_version


@rule("ED020", Severity.WARNING, "a distribution is installed twice, and the other copy is the one imported")
def doubled_installation(environment: Environment, distributions: tuple[Distribution, ...]) -> Conclusions:
    """
    ## What it means
    The environment has a distribution in its site-packages, and again in an egg or a checkout that a `.pth` file adds
    to the search path. Only the first is imported. A build that was made and installed with care may be the second.

    ## How envdoctor knows
    It reads the metadata in every folder of the search path, in the order in which the interpreter searches.

    ## Why it happens
    `python setup.py install` and `setup.py develop` do not remove what pip had installed before, and do not come first
    on the path.

    ## How to fix it
    Uninstall until none is left, then install the one that is wanted, with pip.

    ## When to ignore it
    When the first is the one that is wanted.
    """
    for override in find_own_doubles(distributions, environment):
        won, lost = override.winner, override.loser
        yield Finding(
            message=f"`{won.name}` {written_version(won)} in `{won.location}` hides the one in `{lost.location}`",
            evidence=(
                Evidence(source=won.metadata_path, value=f"{written_version(won)}, imported"),
                Evidence(source=lost.metadata_path, value=f"{written_version(lost)}, not imported"),
            ),
            remedy=Remedy(summary="uninstall until none is left, then install the one that is wanted, with pip"),
        )
