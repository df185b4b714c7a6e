"""How that which is installed lies in the examined environment: what is gone, in doubt or in the way; no judgement.

Paths are text, as they stood on the examined machine.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedInstallation:
    """An installed distribution of whose modules and libraries, as RECORD lists them (PEP 376), some are gone."""

    distribution: str  # normalised name
    version: str
    metadata_path: str
    location: str
    gone: tuple[str, ...]  # paths below `location`, the first few
    gone_count: int
    recorded: int  # how many modules and libraries RECORD lists


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestedProject:
    """A project that conda recorded and that another installer put into the same environment in another version."""

    name: str  # of the distribution
    conda_record: str  # path
    conda_version: str
    metadata_path: str
    version: str
    installer: str
    # Files of conda's package that are still there, and that the list of the other installer does not name.
    survivors: tuple[str, ...]  # paths below the prefix, the first few
    survivor_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowedModule:
    """A module of the standard library or of the environment that is not imported, because a namesake comes first."""

    name: str
    taken: str  # path of the file or package that comes first
    origin: str  # where it lies: "PYTHONPATH", "current folder"
    hidden: str  # path of the one that it hides
    hidden_origin: str  # "standard library", "site-packages", ...
    lost: tuple[str, ...] = ()  # extension modules in the hidden package that are not in the taken one
    lacking: str = ""  # a name that a module of the standard library imports from it, and that it does not have
    asked_by: str = ""  # path of that module


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A script in the `bin` of the environment that starts another interpreter than the environment's."""

    script: str
    interpreter: str  # as its first line names it
    exists: bool
