"""Modules that are not imported, because a namesake comes first."""

from collections.abc import Iterable, Iterator

from envdoctor.model.facts import Distribution
from envdoctor.model.finding import Evidence
from envdoctor.model.installation import ShadowedModule

STANDARD_LIBRARY = "standard library"
_MOST_NAMED = 10
_AT_A_GLANCE = 3


def is_poorer(module: ShadowedModule) -> bool:
    """Tell whether what is taken cannot replace what it hides: it lacks a part, or stands in for Python's own."""
    return bool(module.lost) or module.hidden_origin == STANDARD_LIBRARY


def without_overrides(
    modules: Iterable[ShadowedModule], distributions: Iterable[Distribution]
) -> tuple[ShadowedModule, ...]:
    """Leave out what is the package of a distribution that is hidden as a whole: other rules compare the versions."""
    hidden = {(one.location, one.name.replace("-", "_")) for one in distributions if one.shadowed_by}
    return tuple(module for module in modules if (module.hidden.rpartition("/")[0], module.name.lower()) not in hidden)


def list_evidence(modules: tuple[ShadowedModule, ...]) -> Iterator[Evidence]:
    """Yield what is taken for what, the first few, and how many there are more."""
    for module in modules[:_MOST_NAMED]:
        lost = f", with {', '.join(module.lost)}" if module.lost else ""
        yield Evidence(source=module.taken, value=f"hides {module.hidden} ({module.hidden_origin}){lost}")
    if len(modules) > _MOST_NAMED:
        names = ", ".join(module.name for module in modules[_MOST_NAMED:])
        yield Evidence(source=f"{len(modules) - _MOST_NAMED} more", value=names)


def name_all(modules: tuple[ShadowedModule, ...]) -> str:
    """Name modules in a message; of many the first few."""
    names = [f"`{module.name}`" for module in modules]
    if len(names) <= _AT_A_GLANCE:
        return ", ".join(names)
    return f"{', '.join(names[:_AT_A_GLANCE])} and {len(names) - _AT_A_GLANCE} more"
