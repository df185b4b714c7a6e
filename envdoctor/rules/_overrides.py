"""Distributions that another one of their name keeps from being imported, because it comes first on the search path."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envdoctor.model.facts import Distribution, Environment, MetadataKind
from envdoctor.model.finding import Evidence, Remedy
from envdoctor.model.wording import name_first

USER_SITE = "user site"
PYTHONPATH = "PYTHONPATH"
OVERRIDING = (USER_SITE, PYTHONPATH)

_MOST_NAMED = 10
# They are run for themselves, and no job imports them.
_TOOLS = frozenset({"pip", "wheel"})
# conda and easy_install kept it in an egg of its own, which stays when pip updates it.
_OFTEN_TWICE = _TOOLS | {"setuptools"}
# On a system of its own, `pip install --user` is meant to put something in front of what the system's own packages
# bring: they name no installer, or one of these.
_OF_THE_SYSTEM = frozenset({"", "debian", "rpm"})
_WITHOUT_IMPORT = frozenset({MetadataKind.CONDA_META, MetadataKind.LEFTOVER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Two versions of one distribution."""

    winner: Distribution
    loser: Distribution

    @property
    def evidence(self) -> Evidence:
        """What is imported, and what is not."""
        won, lost = self.winner, self.loser
        return Evidence(
            source=won.location,
            value=f"{won.name} {written_version(won)} is imported, not {written_version(lost)} in {lost.location}",
        )

    @property
    def folders(self) -> tuple[str, str]:
        """Where both lie."""
        return self.winner.location, self.loser.location


def find_overrides(distributions: Iterable[Distribution], environment: Environment, origin: str) -> list[Override]:
    """Find what folders of *origin* bring in another version than the environment does; torch comes first."""
    folders = folders_of(environment, origin)
    by_path = {one.metadata_path: one for one in distributions}
    of_system = {entry.path for entry in environment.search_path if entry.origin.startswith("system ")}
    pairs = ((by_path.get(one.shadowed_by), one) for one in distributions if _is_own(one, environment, of_system))
    overrides = [
        Override(winner=winner, loser=loser)
        for winner, loser in pairs
        if winner and winner.location in folders and _differ(winner, loser) and winner.name not in _TOOLS
    ]
    return sorted(overrides, key=lambda one: (one.winner.name != "torch", one.winner.name))


def find_own_doubles(distributions: Iterable[Distribution], environment: Environment) -> list[Override]:
    """Find what the environment has in its site-packages, and again where a `.pth` file of it leads."""
    origins = {entry.path: entry.origin for entry in environment.search_path}
    by_path = {one.metadata_path: one for one in distributions}
    pairs = (
        (by_path.get(one.shadowed_by), one)
        for one in distributions
        if origins.get(one.location, "").startswith(".pth ") and one.metadata_kind not in _WITHOUT_IMPORT
    )
    return [
        Override(winner=winner, loser=loser)
        for winner, loser in pairs
        if winner
        and winner.name not in _OFTEN_TWICE
        and is_of_environment(winner, environment)
        and origins.get(winner.location) == "site-packages"
    ]


def folders_of(environment: Environment, origin: str) -> tuple[str, ...]:
    """Return the folders of the search path that have this origin."""
    return tuple(entry.path for entry in environment.search_path if entry.origin == origin)


def is_of_environment(distribution: Distribution, environment: Environment) -> bool:
    """Tell whether a distribution lies in the environment itself."""
    return distribution.location.startswith(environment.prefix.rstrip("/") + "/")


def _is_own(distribution: Distribution, environment: Environment, of_system: set[str]) -> bool:
    """Whether it is meant to be imported: what a venv sees of the system behind it, too (`--system-site-packages`)."""
    is_of_system = environment.kind == "system" or distribution.location in of_system
    if distribution.metadata_kind in _WITHOUT_IMPORT or (is_of_system and distribution.installer in _OF_THE_SYSTEM):
        return False
    return distribution.location in of_system or is_of_environment(distribution, environment)


def _differ(winner: Distribution, loser: Distribution) -> bool:
    # An editable install may have any content under its version.
    return winner.version != loser.version or winner.editable_root != loser.editable_root


def describe_overrides(overrides: list[Override]) -> str:
    """Name the first of what wins, and count the others."""
    return name_first([f"{one.winner.name} {written_version(one.winner)}" for one in overrides])


def list_evidence(overrides: list[Override]) -> Iterator[Evidence]:
    """Yield the first pairs, their folders once, and say how many there are more."""
    by_folders: dict[tuple[str, str], list[Override]] = {}
    for override in overrides[:_MOST_NAMED]:
        by_folders.setdefault(override.folders, []).append(override)
    for (before, behind), pairs in by_folders.items():
        if len(pairs) == 1:
            yield pairs[0].evidence
            continue
        yield Evidence(source=before, value=f"comes before {behind}")
        for pair in pairs:
            versions = f"{written_version(pair.winner)} is imported, not {written_version(pair.loser)}"
            yield Evidence(source=pair.winner.name, value=versions)
    if len(overrides) > _MOST_NAMED:
        names = ", ".join(override.winner.name for override in overrides[_MOST_NAMED:])
        yield Evidence(source=f"{len(overrides) - _MOST_NAMED} more", value=names)


def written_version(distribution: Distribution) -> str:
    """Write a version, or that there is none."""
    return distribution.version if isinstance(distribution.version, str) else "of unknown version"


def leave_out_user_site(environment: Environment) -> tuple[str, ...]:
    """Return the commands that keep Python from looking into the user site: for this shell, and for good."""
    here = "export PYTHONNOUSERSITE=1"
    if environment.kind != "conda":
        return (here,)
    return (here, f"conda env config vars set --prefix {shlex.quote(environment.prefix)} PYTHONNOUSERSITE=1")


def shorten_pythonpath(environment: Environment, without: Iterable[str]) -> str:
    """Return the command that takes folders off PYTHONPATH."""
    kept = [folder for folder in folders_of(environment, PYTHONPATH) if folder not in set(without)]
    return f"export PYTHONPATH={shlex.quote(':'.join(kept))}" if kept else "unset PYTHONPATH"


def find_pythonpath_folder(path: str, environment: Environment | None) -> str:
    """Return the folder of PYTHONPATH through which Python finds a file; "" where it is another one."""
    folders = folders_of(environment, PYTHONPATH) if environment else ()
    return next((folder for folder in folders if path.startswith(f"{folder.rstrip('/')}/")), "")


def take_off_pythonpath(folder: str, environment: Environment) -> Remedy:
    """Keep what lies in a folder of PYTHONPATH out: what pip installs comes behind it."""
    return Remedy(
        summary=f"take {folder} off PYTHONPATH, here and in the job; to reinstall in the environment changes nothing, "
        "PYTHONPATH still comes first",
        commands=(shorten_pythonpath(environment, (folder,)),),
    )
