"""Environments and distributions for the rules about search paths."""

from typing import Any

from envdoctor.model.facts import Distribution, Environment, SearchEntry
from tests.builders import SITE_PACKAGES, a_distribution, an_environment

USER = "/home/user/.local/lib/python3.10/site-packages"
SHARED = "/shared/packages"
LIBRARY = "/opt/env/lib/python3.10"


def searching(*before: tuple[str, str], **changes: Any) -> Environment:
    """A conda environment that searches folders before its own: ``searching((USER, "user site"))``."""
    own = ((LIBRARY, "standard library"), (SITE_PACKAGES, "site-packages"))
    entries = tuple(SearchEntry(path=path, origin=origin) for path, origin in (*before, *own))
    return an_environment(**{"kind": "conda", "search_path": entries} | changes)


def in_folder(folder: str, name: str, version: str, **changes: Any) -> Distribution:
    """A distribution that lies in that folder."""
    path = f"{folder}/{name.replace('-', '_')}-{version}.dist-info"
    return a_distribution(name, version, **{"location": folder, "metadata_path": path} | changes)


def pair(folder: str, name: str, winning: str, losing: str, **changes: Any) -> tuple[Distribution, Distribution]:
    """Two versions of a distribution: that of *folder* is imported, the environment's is not; *changes* are its."""
    winner = in_folder(folder, name, winning)
    return winner, in_folder(SITE_PACKAGES, name, losing, **{"shadowed_by": winner.metadata_path} | changes)
