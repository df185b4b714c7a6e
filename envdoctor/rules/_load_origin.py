"""Which torch a library was built for, as its distribution and its symbols tell."""

import re
from collections.abc import Iterator

from envdoctor.kb.torch_choice import COMPANIONS
from envdoctor.kb.torch_symbols import TorchReleases
from envdoctor.model.finding import Evidence
from envdoctor.model.loading import LoadFailure
from envdoctor.rules._load_scene import Scene

# In versions and names of wheels: 2.1.2+pt113cu117, 2.7.4+cu12torch2.6cxx11abiFALSE.
_MARK = re.compile(r"(?:pt|torch)(\d)(?:\.(\d+)|(\d{1,2}))(?!\d)")
_ABI_MARK = re.compile(r"cxx11abi(TRUE|FALSE)")
_PIN = re.compile(r"torch\s*\(?==\s*([\d.]+)")


def find_origin(distribution: str, scene: Scene) -> str:
    """Name the torch that a distribution was built for, other than the installed one; "" when nothing tells."""
    return next((version for _, version in _find_hints(distribution, scene)), "")


def find_origin_of_symbols(failure: LoadFailure, scene: Scene) -> str:
    """Name the releases of torch that have what is missing; "" when nothing tells, or the installed one is among them.

    Of a minor release they may not hold for every patch: 1.8.1 lacks one function of 1.8.0.
    """
    releases = scene.kb.find_torch_releases(failure.undefined or (failure.name,))
    installed = scene.torch.version if scene.torch else ""
    return str(releases) if releases and not _is_between(installed, releases) else ""


def describe_origin(distribution: str, failure: LoadFailure, scene: Scene) -> Iterator[Evidence]:
    """Say what tells which torch, and which C++ ABI, a library was built for."""
    told: set[str] = set()
    for source, version in _find_hints(distribution, scene):
        if version not in told:
            yield Evidence(source=source, value=f"for torch {version}")
        told.add(version)
    if releases := find_origin_of_symbols(failure, scene):
        yield Evidence(source="torch that has them", value=releases)
    if match := _ABI_MARK.search(_label_of(distribution, scene)):
        which = "new" if match[1] == "TRUE" else "old"
        yield Evidence(source=f"name of the wheel of {distribution}", value=f"for the {which} C++11 ABI ({match[0]})")


def _find_hints(distribution: str, scene: Scene) -> Iterator[tuple[str, str]]:
    """Yield where it was read, and the version, the surest first."""
    installed = scene.torch.version if scene.torch else ""
    for source, version in _read_hints(distribution, scene):
        # What fits the installed torch explains nothing: its own build may be another one.
        if not f"{installed}.".startswith((f"{version}.", f"{version}+")):
            yield source, version


def _is_between(version: str, releases: TorchReleases) -> bool:
    release = _minor(version)
    begins = not releases.first or _minor(releases.first) <= release
    return begins and (not releases.last or release <= _minor(releases.last))


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:2])


def _read_hints(distribution: str, scene: Scene) -> Iterator[tuple[str, str]]:
    if match := _MARK.search(_label_of(distribution, scene)):
        yield f"name of the wheel of {distribution}", f"{match[1]}.{match[2] or match[3]}"
    found = next((each for each in scene.distributions if each.name == distribution and not each.shadowed_by), None)
    for requirement in found.requires if found else ():
        if (match := _PIN.match(requirement)) and "extra" not in requirement:
            yield f"metadata of {distribution}", match[1]
    version = scene.version_of(distribution).partition("+")[0]
    if distribution in COMPANIONS and version:
        pairs = ((row.version, getattr(row, distribution)) for row in scene.kb.torch_releases.values())
        belongs = [release for release, companion in pairs if companion == version]
        if belongs:
            yield f"{distribution} {version}", belongs[-1]


def _label_of(distribution: str, scene: Scene) -> str:
    found = (each for each in scene.distributions if each.name == distribution and not each.shadowed_by)
    each = next(found, None)
    return f"{each.version} {each.direct_url}" if each else ""
