"""What is installed in the examined environment, from the metadata on disk alone; broken metadata is a fact as well.

An environment holds hundreds of distributions and is read before every job. So a metadata file is read up to the end
of its headers and no further (what follows is the README), and the headers are split here: to import `email` and
`packaging.utils` takes longer than to read a hundred distributions.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.version import Version

from envdoctor.binary.reader import BinaryError
from envdoctor.model.facts import Absence, Distribution, Environment, MetadataKind, Unavailable
from envdoctor.probes.foreign_files import as_file_name, open_file, read_head, read_text

_USUAL_HEADERS = 1 << 14
_LONGEST_HEADERS = 1 << 22  # a hundred thousand requirements
_END_OF_HEADERS = re.compile(rb"\n\r?\n")
_EGG_TEXTS = frozenset({"EGG-INFO/PKG-INFO", "EGG-INFO/requires.txt"})
_FOLD = re.compile(r"\r?\n[ \t]+")


def find_distributions(environment: Environment) -> tuple[Distribution, ...]:
    """Find every distribution of *environment*, in the order in which its interpreter would."""
    # The import hook of an editable install finds packages in the folder of their source, and no metadata.
    searched = (entry.path for entry in environment.search_path if not entry.origin.startswith("editable "))
    folders = _distinct_folders(searched)
    found = _join_egg_links([found for folder in folders for found in _read_folder(folder)])
    found = _without_build_leavings(found)
    found = _join_conda_records(found, Path(environment.prefix))
    return tuple(_with_shadows(_with_doubles(found)))


def normalise(name: str) -> str:
    """Write the name of a project in the form in which names compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _distinct_folders(paths: Iterable[str]) -> Iterator[Path]:
    seen = set()
    for path in paths:
        if (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield Path(path)


# --- one folder of the search path -------------------------------------------------------------------------------


def _read_folder(folder: Path) -> Iterator[Distribution]:
    if folder.suffix == ".egg":
        yield from _read_egg(folder)
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # the interpreter cannot list it either, and `Environment.notes` says so
        return
    for name in names:
        path = folder / name
        if name.startswith("~"):
            yield _leftover(path)
        elif name.endswith(".dist-info"):
            yield _read_dist_info(path)
        elif name.endswith(".egg-info"):
            yield _read_egg_info(path)
        elif name.endswith(".egg-link"):
            yield _read_egg_link(path)


def _leftover(path: Path) -> Distribution:
    return Distribution(
        name=path.name,
        version=Unavailable("it was being installed or removed", Absence.NOT_APPLICABLE),
        metadata_kind=MetadataKind.LEFTOVER,
        metadata_path=str(path),
        location=str(path.parent),
        problems=("left by an installation or removal that did not finish",),
    )


def _read_dist_info(path: Path) -> Distribution:
    metadata = _read_metadata(path / "METADATA")
    direct_url, editable_root = _read_direct_url(path / "direct_url.json")
    return Distribution(
        name=normalise(metadata.name or path.stem.partition("-")[0]),
        version=metadata.version,
        metadata_kind=MetadataKind.DIST_INFO,
        metadata_path=str(path),
        location=str(path.parent),
        requires=metadata.requires,
        requires_python=metadata.requires_python,
        installer=_read_first_line(path / "INSTALLER"),
        direct_url=direct_url,
        editable_root=editable_root,
        source_is_gone=bool(editable_root) and not os.path.isdir(editable_root),
        problems=metadata.problems,
    )


def _read_egg_info(path: Path) -> Distribution:
    is_folder = os.path.isdir(path)  # where distutils alone installs, the metadata are the file itself
    metadata = _read_metadata(path / "PKG-INFO" if is_folder else path)
    return Distribution(
        name=normalise(metadata.name or path.stem.partition("-")[0]),
        version=metadata.version,
        metadata_kind=MetadataKind.EGG_INFO,
        metadata_path=str(path),
        location=str(path.parent),
        requires=tuple(_parse_egg_requires(_read_text(path / "requires.txt"))),
        requires_python=metadata.requires_python,
        installer=_read_first_line(path / "INSTALLER"),
        problems=metadata.problems,
    )


def _read_egg(path: Path) -> Iterator[Distribution]:
    """Read the metadata of an egg, which is itself a folder of the search path, or a zip file in the place of one."""
    if os.path.isdir(path / "EGG-INFO"):
        yield replace(_read_egg_info(path / "EGG-INFO"), installer="easy_install")
        return
    try:
        texts = _read_zipped_texts(path)
    except (OSError, BinaryError):
        return
    metadata = _parse_metadata(texts.get("EGG-INFO/PKG-INFO", b""), "PKG-INFO")
    yield Distribution(
        name=normalise(metadata.name or path.name.partition("-")[0]),
        version=metadata.version,
        metadata_kind=MetadataKind.EGG_INFO,
        metadata_path=str(path),
        location=str(path),
        requires=tuple(_parse_egg_requires(texts.get("EGG-INFO/requires.txt", b"").decode("utf-8", "replace"))),
        requires_python=metadata.requires_python,
        installer="easy_install",
        problems=metadata.problems,
    )


def _read_zipped_texts(path: Path) -> dict[str, bytes]:
    from envdoctor.binary.wheel import WheelError, find_members  # zipped eggs are rare, and zipfile is not small

    texts = {}
    with open_file(path) as file:
        for member in find_members(file):
            if member.name not in _EGG_TEXTS:
                continue
            if isinstance(member.content, WheelError):
                raise member.content
            texts[member.name] = member.content.peek(0, _LONGEST_HEADERS)
    return texts


def _read_egg_link(path: Path) -> Distribution:
    """Follow the link that `setup.py develop` leaves to the folder in which it wrote the egg-info."""
    source = Path(path.parent, _read_first_line(path))
    egg_info = source / f"{path.stem}.egg-info"
    if not os.path.exists(egg_info):
        return Distribution(
            name=normalise(path.stem),
            version=Unavailable(f"`{egg_info}` does not exist"),
            metadata_kind=MetadataKind.EGG_LINK,
            metadata_path=str(path),
            location=str(path.parent),
            editable_root=str(source),
            source_is_gone=True,
            problems=(f"`{path.name}` leads to `{egg_info}`, which does not exist",),
        )
    linked = _read_egg_info(egg_info)
    return replace(linked, metadata_kind=MetadataKind.EGG_LINK, editable_root=str(source), installer="setuptools")


# --- one metadata file -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    name: str = ""
    version: str | Unavailable
    requires: tuple[str, ...] = ()
    requires_python: str = ""
    problems: tuple[str, ...] = ()


def _read_metadata(path: Path) -> _Metadata:
    try:
        headers = _read_headers(path)
    except OSError as exc:
        problem = f"{path.name} is missing" if isinstance(exc, FileNotFoundError) else f"{path.name}: {exc.strerror}"
        return _Metadata(version=Unavailable(problem), problems=(problem,))
    return _parse_metadata(headers, path.name)


def _read_headers(path: Path) -> bytes:
    headers = read_head(path, _USUAL_HEADERS)
    is_cut_off = len(headers) == _USUAL_HEADERS and not _END_OF_HEADERS.search(headers)
    return read_head(path, _LONGEST_HEADERS) if is_cut_off else headers


def _parse_metadata(content: bytes, file_name: str) -> _Metadata:
    problems = []
    if not content.strip():
        problems.append(f"{file_name} is empty")
    end = _END_OF_HEADERS.search(content)
    headers = content[: end.start()] if end else content
    if len(headers) == _LONGEST_HEADERS:
        problems.append(f"{file_name} was read to its first {_LONGEST_HEADERS >> 20} MB")
    try:
        text = headers.decode()
    except UnicodeDecodeError:
        problems.append(f"{file_name} is not UTF-8")
        text = headers.decode("latin-1")

    values: dict[str, list[str]] = defaultdict(list)
    for line in _FOLD.sub(" ", text).splitlines():
        name, _, value = line.partition(":")
        values[name.lower()].append(value.strip())
    version = values["version"][0] if values["version"] else ""
    if content.strip() and not version:
        problems.append(f"{file_name} names no version")
    elif version and not _is_version(version):
        problems.append(f"version `{version}` is not one (PEP 440)")
    return _Metadata(
        name=values["name"][0] if values["name"] else "",
        version=version if _is_version(version) else _explain_absence(problems[-1], version),
        requires=tuple(values["requires-dist"]),
        requires_python=values["requires-python"][0] if values["requires-python"] else "",
        problems=tuple(problems),
    )


def _explain_absence(reason: str, version: str) -> Unavailable:
    # What stands there was read; it is no version.
    return Unavailable(reason, Absence.NOT_APPLICABLE if version else Absence.UNREADABLE)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except ValueError:  # InvalidVersion is one; and there are numbers that are too long for Python
        return False
    return True


def _parse_egg_requires(text: str) -> Iterator[str]:
    """Turn the sections of requires.txt, `[extra:marker]`, into the markers that Requires-Dist has."""
    conditions = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("[") and line.endswith("]"):
            name, _, condition = line[1:-1].partition(":")
            extra = f'extra == "{name}"' if name else ""
            marker = f"({condition})" if extra and condition else condition
            conditions = " and ".join(filter(None, (marker, extra)))
        else:
            yield f"{line} ; {conditions}" if conditions else line


def _read_direct_url(path: Path) -> tuple[str, str]:
    """Read where a distribution was installed from, and, if it is editable, the folder of its source (PEP 610)."""
    try:
        origin = json.loads(_read_text(path))
        url = str(origin["url"])
        folder = as_file_name(unquote(urlsplit(url).path))
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""
    vcs = origin.get("vcs_info")
    if isinstance(vcs, dict):
        return f"{vcs.get('vcs')}+{url}@{vcs.get('commit_id')}", ""
    about_folder = origin.get("dir_info")
    is_editable = isinstance(about_folder, dict) and about_folder.get("editable") is True
    return url, folder if is_editable else ""


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except OSError:
        return ""


def _read_first_line(path: Path) -> str:
    return _read_text(path).partition("\n")[0].strip()


# --- many together -----------------------------------------------------------------------------------------------


def _join_egg_links(found: list[Distribution]) -> list[Distribution]:
    """Let a link be one with the egg-info it leads to, in the place where easy-install.pth has that on the path."""
    links = {each.metadata_path: each for each in found if each.metadata_kind is MetadataKind.EGG_LINK}
    targets = {each.metadata_path for each in found if each.metadata_kind is MetadataKind.EGG_INFO}
    joined = []
    for distribution in found:
        if distribution.metadata_kind is not MetadataKind.EGG_LINK:
            joined.append(links.get(distribution.metadata_path, distribution))
        elif distribution.metadata_path not in targets:
            problem = f"`{distribution.editable_root}` is not on the search path"
            joined.append(replace(distribution, problems=distribution.problems or (problem,)))
    return joined


def _without_build_leavings(found: list[Distribution]) -> list[Distribution]:
    """Leave out the egg-info that building an editable distribution wrote into its source folder."""
    roots = {(editable.name, editable.editable_root) for editable in found if editable.editable_root}

    def is_leaving(distribution: Distribution) -> bool:
        folder = Path(distribution.location)
        return distribution.metadata_kind is MetadataKind.EGG_INFO and any(
            (distribution.name, str(root)) in roots for root in (folder, *folder.parents)
        )

    return [distribution for distribution in found if not is_leaving(distribution)]


def _with_doubles(found: list[Distribution]) -> list[Distribution]:
    groups: dict[tuple[str, str, bool], list[str]] = defaultdict(list)
    for distribution in found:
        groups[_place(distribution)].append(Path(distribution.metadata_path).name)
    return [
        replace(distribution, problems=(*distribution.problems, f"recorded {len(names)} times: {', '.join(names)}"))
        if len(names := groups[_place(distribution)]) > 1
        else distribution
        for distribution in found
    ]


def _place(distribution: Distribution) -> tuple[str, str, bool]:
    return distribution.location, distribution.name, distribution.metadata_kind is MetadataKind.CONDA_META


def _with_shadows(found: list[Distribution]) -> Iterator[Distribution]:
    """Mark what the interpreter does not get to see, because the same name comes earlier on its path."""
    first: dict[str, Distribution] = {}
    for distribution in found:
        if distribution.metadata_kind in {MetadataKind.CONDA_META, MetadataKind.LEFTOVER}:
            yield distribution
            continue
        winner = first.setdefault(distribution.name, distribution)
        is_shadowed = winner.location != distribution.location
        yield replace(distribution, shadowed_by=winner.metadata_path) if is_shadowed else distribution


# --- conda -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One package that conda installed, from the name of its file in conda-meta: NAME-VERSION-BUILD.json."""

    name: str
    version: str
    build: str
    path: Path


def _join_conda_records(found: list[Distribution], prefix: Path) -> list[Distribution]:
    """Let a Python distribution and the conda package that brought it be one; add the packages that brought none."""
    records = list(_read_records(prefix / "conda-meta"))
    owners = _find_owners([each for each in found if _may_be_from_conda(each, prefix)], records)
    joined = [
        replace(distribution, installer="conda", build=owner.build)
        if (owner := owners.get(distribution.metadata_path))
        else distribution
        for distribution in found
    ]
    owning = {owner.path for owner in owners.values()}
    return joined + [_conda_package(record, found, prefix) for record in records if record.path not in owning]


def _read_records(folder: Path) -> Iterator[_Record]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        parts = name.removesuffix(".json").rsplit("-", 2)
        if name.endswith(".json") and len(parts) == 3:  # noqa: PLR2004  name, version, build
            yield _Record(name=normalise(parts[0]), version=parts[1], build=parts[2], path=folder / name)


def _may_be_from_conda(distribution: Distribution, prefix: Path) -> bool:
    return (
        Path(distribution.location).is_relative_to(prefix)
        and not distribution.editable_root
        and distribution.installer in {"", "conda"}
    )


def _find_owners(distributions: list[Distribution], records: list[_Record]) -> dict[str, _Record]:
    """Find which conda package brought which distribution, by metadata path."""
    by_name = {(record.name, record.version): record for record in records}
    owners = {each.metadata_path: by_name.get((each.name, str(each.version))) for each in distributions}
    found = {path: record for path, record in owners.items() if record}
    # Where the names differ, as `pytorch` and `torch` do, the record lists the files of the distribution. A record is
    # long, and most belong to no Python package: their build string has no `py` in it.
    nameless = {path: os.fsencode("site-packages/" + Path(path).name) for path, record in owners.items() if not record}
    others = [record for record in records if "py" in record.build and record not in found.values()]
    for record in others if nameless else ():
        content = os.fsencode(_read_text(record.path))
        found |= {path: record for path, needle in nameless.items() if needle in content}
    return found


def _conda_package(record: _Record, found: list[Distribution], prefix: Path) -> Distribution:
    namesakes = [each for each in found if each.name == record.name and Path(each.location).is_relative_to(prefix)]
    return Distribution(
        name=record.name,
        version=record.version,
        metadata_kind=MetadataKind.CONDA_META,
        metadata_path=str(record.path),
        location=str(prefix),
        installer="conda",
        build=record.build,
        problems=tuple(
            f"`{Path(each.metadata_path).name}` in its place tells of {each.installer or 'another installer'}"
            for each in namesakes
        ),
    )
