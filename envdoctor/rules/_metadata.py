"""What the metadata of one distribution, or of several that share a name and a folder, say and do not say."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from envdoctor.model.facts import Absence, Distribution, MetadataKind, Unavailable

_INSTALLED = frozenset({MetadataKind.DIST_INFO, MetadataKind.EGG_INFO})


def find_doubles(distributions: Iterable[Distribution]) -> list[tuple[Distribution, ...]]:
    """Find what is recorded several times in one folder, with more than one version or with none."""
    groups: dict[tuple[str, str], list[Distribution]] = defaultdict(list)
    for one in distributions:
        if one.metadata_kind in _INSTALLED:
            groups[one.location, one.name].append(one)
    # conda and distributors leave an egg-info and a dist-info of one version: whichever is read says the same.
    return [tuple(group) for group in groups.values() if len({str(one.version) for one in group}) > 1]


def is_unreadable(distribution: Distribution) -> bool:
    """Tell whether the metadata tell no version at all; one that is not of the form of PEP 440 is told."""
    version = distribution.version
    return (
        distribution.metadata_kind in _INSTALLED
        and isinstance(version, Unavailable)
        and version.absence is Absence.UNREADABLE
    )


def folder_of(distribution: Distribution) -> str:
    """Return the name of the metadata folder, e.g. ``torch-2.0.1.dist-info``."""
    return PurePosixPath(distribution.metadata_path).name


def version_of_folder(distribution: Distribution) -> str:
    """Return the version that a metadata folder is named after, "" when it is named after none."""
    return folder_of(distribution).removesuffix(".dist-info").removesuffix(".egg-info").partition("-")[2]
