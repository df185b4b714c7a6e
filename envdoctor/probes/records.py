"""Which of the files that installers recorded are gone, and which are left of a package that was laid over.

Hashes are not looked at: official wheels carry wrong ones (https://github.com/pytorch/pytorch/issues/97153). What is
not imported may be missing on purpose, as tests and headers are in slim images: modules and libraries count alone.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envdoctor.model.facts import Distribution, Environment, MetadataKind, Unavailable
from envdoctor.model.installation import ContestedProject, DamagedInstallation
from envdoctor.probes.foreign_files import as_file_name, read_file, read_text

_MOST_NAMED = 12
# They move or strip files after a wheel was built, and leave its RECORD as it was.
_REPACKAGERS = frozenset({"conda", "debian", "rpm"})
_ENDS = (re.compile(r"\.py,"), re.compile(r"\.so[.0-9]*,"))
_SIZE = re.compile(r"\n([^,\n]*),[^,\n]*,(\d{1,18})")
# What images are slimmed of.
_DISPENSABLE = re.compile(r"(?:^|/)(?:tests?|examples?|docs?|benchmarks?|include)/")
# A package that several distributions share may only declare a namespace, and whichever is removed first takes its
# `__init__.py` along. Such declarations are a line or two.
_LONGEST_DECLARATION = 200


# --- damage ------------------------------------------------------------------------------------------------------


def find_damaged_installations(
    distributions: tuple[Distribution, ...] | Unavailable,
) -> tuple[DamagedInstallation, ...] | Unavailable:
    """Find the distributions that are not all there, in the order in which they were found."""
    if isinstance(distributions, Unavailable):
        return distributions
    records = [_Record(each, _read_record(each)) for each in distributions if _is_recorded_as_it_lies(each)]
    folders = _Folders({})
    damaged = []
    for record in records:
        gone = [path for path in record.paths if folders.lack(record.location, path)]
        gone = [path for path in gone if record.needs(path, records)]
        if gone:
            damaged.append(_describe(record, gone))
    return tuple(damaged)


def _describe(record: "_Record", gone: list[str]) -> DamagedInstallation:
    distribution = record.distribution
    return DamagedInstallation(
        distribution=distribution.name,
        version=distribution.version if isinstance(distribution.version, str) else "",
        metadata_path=distribution.metadata_path,
        location=distribution.location,
        gone=tuple(gone[:_MOST_NAMED]),
        gone_count=len(gone),
        recorded=len(record.paths),
    )


def _is_recorded_as_it_lies(distribution: Distribution) -> bool:
    return (
        distribution.metadata_kind is MetadataKind.DIST_INFO
        and not distribution.editable_root
        and distribution.installer not in _REPACKAGERS
        and not _is_of_debian(distribution)
    )


def _is_of_debian(distribution: Distribution) -> bool:
    """Whether it comes with a package of Debian or Ubuntu; pip, which installs beside those, says so in INSTALLER."""
    return not distribution.installer and os.path.basename(distribution.location) == "dist-packages"


def _read_record(distribution: Distribution) -> str:
    try:
        return "\n" + read_text(Path(distribution.metadata_path, "RECORD"))
    except OSError:
        return ""


@dataclass(frozen=True)
class _Record:
    """What an installer wrote down about one distribution."""

    distribution: Distribution
    content: str

    @property
    def location(self) -> str:
        return self.distribution.location

    @cached_property
    def paths(self) -> list[str]:
        """The modules and libraries in the folder of the search path, by their paths there."""
        # A pattern for whole lines takes four times as long: torch's RECORD has 15,000.
        ends = sorted(match.end() - 1 for kind in _ENDS for match in kind.finditer(self.content))
        lines = (self.content[self.content.rfind("\n", 0, end) + 1 : end] for end in ends)
        # A path with a comma is quoted. What leads out of the folder is a script.
        return [line for line in lines if not line.startswith(("..", "/", '"'))]

    def needs(self, path: str, records: "list[_Record]") -> bool:
        """Whether it is a loss that the file at *path* is gone."""
        size = self._sizes.get(path, 1)
        if size == 0 or _DISPENSABLE.search(path):
            return False
        package, _, name = path.rpartition("/")
        return name != "__init__.py" or size > _LONGEST_DECLARATION or not self._shares(package, records)

    def _shares(self, package: str, records: "list[_Record]") -> bool:
        """Whether another distribution has files in the folder *package* as well."""
        others = (record for record in records if record is not self and record.location == self.location)
        return any(package in record.folders for record in others)

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders that anything lies in, and those above them."""
        found = {match[1] for match in re.finditer(r"\n([^,\n]*)/", self.content)}
        above = {folder[: slash.start()] for folder in found for slash in re.finditer("/", folder)}
        return frozenset(found | above)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The sizes by path, where they were written down."""
        return {match[1]: int(match[2]) for match in _SIZE.finditer(self.content)}


@dataclass(frozen=True, slots=True)
class _Folders:
    """The folders of the environment, each listed once: to ask for every file takes twice as long."""

    names: dict[str, frozenset[str] | None]

    def lack(self, location: str, path: str) -> bool:
        """Whether neither the file nor what may stand in for it is there."""
        folder, _, name = f"{location}/{path}".rpartition("/")
        if folder not in self.names:
            self.names[folder] = _list_names(folder)
        names = self.names[folder]
        return names is not None and name not in names and not _has_stand_in(name, names)


def _list_names(folder: str) -> frozenset[str] | None:
    try:
        return frozenset(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:  # what is in it cannot be told
        return None


def _has_stand_in(name: str, names: Iterable[str]) -> bool:
    """Whether a module is there in compiled form: bytecode alone, or what Cython made of it."""
    if not name.endswith(".py"):
        return False
    stem = name.removesuffix("py")
    return any(other.startswith(stem) and other.endswith((".pyc", ".so")) for other in names)


# --- two owners --------------------------------------------------------------------------------------------------

# Names of conda for projects that pip knows by another one.
_OTHER_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-nightly": "torch"}


def find_contested_projects(
    environment: Environment, distributions: tuple[Distribution, ...] | Unavailable
) -> tuple[ContestedProject, ...] | Unavailable:
    """Find what conda recorded in one version and another installer put into the same environment in another."""
    if isinstance(distributions, Unavailable):
        return distributions
    prefix = environment.prefix
    others = {
        each.name: each
        for each in distributions
        if each.metadata_kind is MetadataKind.DIST_INFO
        and each.installer not in {"", "conda"}
        and each.location.startswith(prefix + os.sep)
    }
    # A conda package without `py` in its build string is none of Python's: `flatbuffers` is a library in C++ there.
    recorded = (each for each in distributions if each.metadata_kind is MetadataKind.CONDA_META and "py" in each.build)
    pairs = ((each, others.get(_OTHER_NAMES.get(each.name, each.name))) for each in recorded)
    return tuple(_contest(conda, other, prefix) for conda, other in pairs if other and other.version != conda.version)


def _contest(conda: Distribution, other: Distribution, prefix: str) -> ContestedProject:
    survivors = list(_find_survivors(conda, other, prefix))
    return ContestedProject(
        name=other.name,
        conda_record=conda.metadata_path,
        conda_version=str(conda.version),
        metadata_path=other.metadata_path,
        version=other.version if isinstance(other.version, str) else "",
        installer=other.installer,
        survivors=tuple(survivors[:_MOST_NAMED]),
        survivor_count=len(survivors),
    )


def _find_survivors(conda: Distribution, other: Distribution, prefix: str) -> Iterator[str]:
    """Yield what is left of conda's package in the folders of packages, by its paths below the prefix."""
    record = _Record(other, _read_record(other))
    claimed = {os.path.relpath(os.path.join(other.location, path), prefix) for path in record.paths}
    if not claimed:
        return
    counted = (path for path in _files_of_conda(Path(conda.metadata_path)) if re.search(r"\.(py|so[.0-9]*)$", path))
    for path in counted:
        if "site-packages/" in path and path not in claimed and os.path.isfile(os.path.join(prefix, path)):
            yield path


def _files_of_conda(record: Path) -> list[str]:
    try:
        files = json.loads(read_file(record))["files"]
        return [as_file_name(path) for path in files if isinstance(path, str)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
