"""The files that several distributions of an environment brought, or one that is gone, each with other content."""

import base64
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from envdoctor.model.facts import ContestedFile, ContestedFolder, Distribution, MetadataKind, Unavailable
from envdoctor.probes.foreign_files import as_file_name, read_file

_COMPILED = re.compile(rb"\.(so(\.[0-9.]+)?|pyd|dll)$")
_CODE = re.compile(rb"\.(py|so(\.[0-9.]+)?|pyd|dll)$")
# What many wheels bring by mistake, or beside their package (`..` leads to scripts and data).
_BESIDE_PACKAGES = frozenset(
    {b"..", b"__pycache__", b"benchmark", b"benchmarks", b"bin", b"build", b"doc", b"docs", b"example", b"examples"}
    | {b"notebooks", b"samples", b"scripts", b"share", b"src", b"test", b"tests", b"tools", b"utils"}
)
# Namespaces, below which the packages lie.
_NVIDIA = b"nvidia"
_NAMESPACES = frozenset({_NVIDIA, b"google", b"azure", b"sphinxcontrib", b"zope", b"backports"})
_INIT = b"__init__.py"

_LOOKED_AT = 40  # files of a folder: enough to tell whose they are
_LARGEST_HASHED = 8 << 20  # sizes tell larger ones apart


class _Claim(NamedTuple):
    """What the RECORD of one distribution says of a file."""

    distribution: str
    digest: bytes
    size: bytes


def find_contested_folders(
    distributions: tuple[Distribution, ...] | Unavailable,
) -> tuple[ContestedFolder, ...] | Unavailable:
    """Find the folders whose code several distributions brought, and tell whose files lie there.

    What they brought alike does not count, nor what differs in the marks of a namespace alone. Of NVIDIA's libraries,
    those count too that are not what the only distribution that lists them brought.
    """
    if isinstance(distributions, Unavailable):
        return distributions
    records = _read_records(distributions)
    claims: dict[tuple[str, bytes], list[_Claim]] = defaultdict(list)
    for record in _sharing(records):
        for path, digest, size in record.find_code():
            claims[record.location, path].append(_Claim(record.distribution, digest, size))
    folders: dict[tuple[str, bytes], dict[bytes, list[_Claim]]] = defaultdict(dict)
    for (location, path), claimants in claims.items():
        if len({claim.distribution for claim in claimants}) > 1 and len({claim.digest for claim in claimants}) > 1:
            folders[location, _package_of(path)][path] = claimants
    shared = [
        _describe(location, package, contested)
        for (location, package), contested in sorted(folders.items())
        if any(not path.endswith(_INIT) for path in contested)
    ]
    known = {folder.folder for folder in shared}
    return (*shared, *(folder for folder in _find_replaced(records) if folder.folder not in known))


def _find_replaced(records: list["_Record"]) -> Iterator[ContestedFolder]:
    """Yield the folders whose libraries one wheel of NVIDIA's lists alone, and in another size than they have.

    Whoever wrote over them is not installed any more. Nothing else repacks or patches those libraries.
    """
    for record in (record for record in records if _NVIDIA in record.tops):
        replaced: dict[bytes, dict[bytes, list[_Claim]]] = defaultdict(dict)
        for path, digest, size in record.below(frozenset({_NVIDIA})).find_code():
            if _COMPILED.search(path) and _has_another_size(os.path.join(record.location, _decode(path)), int(size)):
                replaced[_package_of(path)][path] = [_Claim(record.distribution, digest, size)]
        for package, files in sorted(replaced.items()):
            yield _describe(record.location, package, files)


def _has_another_size(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size != size
    except OSError:  # it is gone, which is another fault
        return False


# --- lists of files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Record:
    """The RECORD of one distribution, line by line: PATH,sha256=DIGEST,SIZE (PEP 376, PEP 427)."""

    distribution: str
    location: str
    lines: list[bytes]
    tops: frozenset[bytes]  # the uppermost folders that it installs into

    def below(self, tops: frozenset[bytes]) -> "_Record":
        """Leave out what lies in other folders than *tops*."""
        lines = [line for line in self.lines if line[: line.find(b"/")] in tops]
        return _Record(self.distribution, self.location, lines, self.tops & tops)

    def find_code(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield path, digest and size of every file of code."""
        for line in self.lines:
            path, *rest = line.rsplit(b",", 2)
            if len(rest) == 2 and rest[0] and rest[1].isdigit() and _CODE.search(path):  # noqa: PLR2004  digest and size
                yield path, rest[0], rest[1]


def _read_records(distributions: tuple[Distribution, ...]) -> list[_Record]:
    return [
        record
        for each in distributions
        if each.metadata_kind is MetadataKind.DIST_INFO and not each.shadowed_by and not each.editable_root
        for record in _read_record(each)
    ]


def _read_record(distribution: Distribution) -> Iterator[_Record]:
    try:
        lines = read_file(Path(distribution.metadata_path, "RECORD")).splitlines()
    except OSError:  # without a list, nothing is claimed
        return
    # `find` gives -1 for a file beside the folders: its name without the last letter, which is no folder of another.
    tops = {line[: line.find(b"/")] for line in lines} - _BESIDE_PACKAGES
    yield _Record(distribution.name, distribution.location, lines, frozenset(tops))


def _sharing(records: list[_Record]) -> Iterator[_Record]:
    """Yield of every list what lies in folders that other distributions install into as well."""
    owners: dict[tuple[str, bytes], set[str]] = defaultdict(set)
    for record in records:
        for top in record.tops:
            owners[record.location, top].add(record.distribution)
    for record in records:
        shared = frozenset(top for top in record.tops if len(owners[record.location, top]) > 1)
        if shared:
            yield record.below(shared)


def _package_of(path: bytes) -> bytes:
    parts = path.split(b"/")
    return b"/".join(parts[: 2 if parts[0] in _NAMESPACES else 1])


# --- whose files lie there ---------------------------------------------------------------------------------------


def _describe(location: str, package: bytes, contested: dict[bytes, list[_Claim]]) -> ContestedFolder:
    in_order = sorted(contested, key=lambda path: (not _COMPILED.search(path), path))[:_LOOKED_AT]
    names = {claim.distribution for claims in contested.values() for claim in claims}
    paths = {os.path.join(location, _decode(path)): contested[path] for path in in_order}
    return ContestedFolder(
        folder=os.path.join(location, _decode(package)),
        distributions=tuple(sorted(names)),
        contested=len(contested),
        files=tuple(ContestedFile(path=path, owner=_find_owner(path, claims)) for path, claims in paths.items()),
    )


def _find_owner(path: str, claims: Iterable[_Claim]) -> str:
    try:
        size = os.stat(path).st_size
    except OSError:
        return ""
    fitting = [claim for claim in claims if claim.size == b"%d" % size]
    if len(fitting) > 1 and size <= _LARGEST_HASHED:
        digest = _digest_of(path)
        fitting = [claim for claim in fitting if claim.digest == digest]
    return fitting[0].distribution if len(fitting) == 1 else ""


def _digest_of(path: str) -> bytes:
    try:
        content = read_file(path, largest=_LARGEST_HASHED)
    except OSError:
        return b""
    return b"sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")


def _decode(path: bytes) -> str:
    return as_file_name(path.decode("utf-8", "surrogateescape"))
