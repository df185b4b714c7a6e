"""What the metadata of a distribution demand of other projects (Requires-Dist)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envdoctor.model.facts import Environment

_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
_EXACT = ("==", "===")
# Without extras, marker or URL: `torch==2.8.0`, `torch (==2.1.2)`.
_PLAIN = re.compile(r"(?P<project>[A-Za-z0-9][\w.-]*)\s*(?P<specifier>\([^()]*\)|[^;()\[\]@]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One requirement that applies to the examined interpreter."""

    project: str  # as the metadata write it
    specifier: SpecifierSet

    @property
    def is_exact(self) -> bool:
        """Whether it names one version."""
        return any(one.operator in _EXACT for one in self.specifier)

    def is_met(self, version: str) -> bool:
        """Tell whether *version* satisfies it, pre-releases too; a local version counts only where it names one.

        Raises:
            ValueError: *version* is none.

        """
        return self.specifier.contains(Version(version), prereleases=True)

    def __str__(self) -> str:
        return f"{self.project}{self.specifier}"


def read_demand(text: str, environment: Environment | None, *, with_extras: bool = False) -> Demand | None:
    """Read one requirement; None where it does not apply to the interpreter of *environment*.

    *with_extras* also takes what is demanded for an extra: whether it was asked for is not recorded.

    Raises:
        ValueError: it is not one.

    """
    if plain := _PLAIN.match(text):
        return Demand(project=plain["project"], specifier=SpecifierSet(plain["specifier"].strip("() ")))
    from packaging.requirements import Requirement  # it takes longer to load than all the rules

    requirement = Requirement(text)
    extras = ("", *_EXTRA.findall(text)) if with_extras else ("",)
    known = _describe(environment) if environment else {}
    for extra in extras:
        if requirement.marker is None or requirement.marker.evaluate(known | {"extra": extra}):
            return Demand(project=requirement.name, specifier=requirement.specifier)
    return None


def find_demands(requires: Iterable[str], on: re.Pattern[str], environment: Environment | None) -> Iterator[Demand]:
    """Yield the requirements that begin like *on* and apply; pip of its time accepted more than can be read here."""
    for text in filter(on.match, requires):
        try:
            demand = read_demand(text, environment)
        except ValueError:
            continue
        if demand:
            yield demand


def _describe(environment: Environment) -> dict[str, str]:
    """Return what markers ask about, as far as the examined interpreter differs from this one."""
    known = {}
    if isinstance(environment.python_version, tuple) and environment.python_version[1:]:
        known["python_version"] = ".".join(map(str, environment.python_version[:2]))
        known["python_full_version"] = ".".join(map(str, environment.python_version))
    system, _, machine = environment.platform.partition("-")
    if system == "linux" and machine:
        known |= {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine}
    return known
