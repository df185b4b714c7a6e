"""Finds the nearest torch that fits the devices, the driver, the Python and the pins, and says how to install it."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_builds import X86_64, TorchBuildRow
from envdoctor.model.arch import CodeKind, ComputeCapability
from envdoctor.model.facts import (
    DeviceCode,
    Distribution,
    Driver,
    Environment,
    Host,
    LibraryRole,
    MetadataKind,
    SearchEntry,
    TorchBuild,
)
from envdoctor.model.finding import Remedy
from envdoctor.model.requirements import find_demands
from envdoctor.model.versions import DriverRelease
from envdoctor.model.wording import enumerate_all

# Released in step with torch, so they are replaced together with it.
COMPANIONS = ("torchvision", "torchaudio", "torchtext")

# conda's names of torch, of its companions, and of what chooses its build.
_CONDA_NAMES = frozenset(
    {"pytorch", "pytorch-cpu", "pytorch-cuda", "pytorch-gpu", "pytorch-mutex", "libtorch", "cpuonly", *COMPANIONS}
)

_TORCH_NAMES = frozenset({"torch", "pytorch"})  # pip's and conda's

_MENTIONS_TORCH = re.compile(r"torch\s*(?:$|[^\w.\s-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchWish:
    """What a torch has to fit; what is None limits nothing."""

    installed: TorchBuild
    capability: ComputeCapability
    beside: tuple[ComputeCapability, ...] = ()  # of other GPUs of the machine: to be served too, where one build can
    environment: Environment | None = None
    distributions: tuple[Distribution, ...] = ()
    device_code: tuple[DeviceCode, ...] = ()
    driver: Driver | None = None
    host: Host | None = None

    @property
    def driver_release(self) -> DriverRelease | None:
        """The driver that the build has to run on."""
        release = self.driver.release_version if self.driver else None
        return release if isinstance(release, DriverRelease) else None

    @property
    def python(self) -> tuple[int, ...] | None:
        """The version of the examined interpreter."""
        version = self.environment.python_version if self.environment else None
        return version if isinstance(version, tuple) and version[1:] else None

    @property
    def python_name(self) -> str:
        """The examined interpreter in a message."""
        return f"Python {'.'.join(map(str, self.python[:2]))}" if self.python else "this Python"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pin:
    """What one installed distribution demands of torch."""

    distribution: str
    specifier: SpecifierSet

    def __str__(self) -> str:
        return f"{self.distribution} (`torch{self.specifier}`)"


def find_torch_remedy(wish: TorchWish, kb: KnowledgeBase) -> Remedy:
    """Name the nearest build with machine code for the device of *wish*; where there is none, what stands in the way.

    Nearest is the installed release with another CUDA version, then a newer release, and an older one only where
    nothing else fits. What is not certain comes last.
    """
    remedy = _find_build(wish, kb)
    foreign = _find_foreign_folder(wish.installed, wish.environment)
    if foreign is None:
        return remedy
    if own := bring_to_light(wish.installed, wish.environment, wish.distributions):
        return own
    start, commands = _keep_out(foreign, wish.environment)
    return replace(remedy, summary=f"{start}; then {remedy.summary}", commands=(*commands, *remedy.commands))


def bring_to_light(
    torch: TorchBuild, environment: Environment | None, distributions: tuple[Distribution, ...]
) -> Remedy | None:
    """Say how to get at the environment's own torch behind the imported one, which pip does not replace; or None."""
    foreign = _find_foreign_folder(torch, environment)
    own = next((one for one in distributions if one.name in _TORCH_NAMES and one.shadowed_by), None)
    if foreign is None or own is None:
        return None
    start, commands = _keep_out(foreign, environment)
    end = f"the environment's own torch {own.version} comes to light; check it then"
    return Remedy(summary=f"{start}; {end}", commands=commands)


def wheel_platform(environment: Environment | None) -> str:
    """Return the platform as wheels call it; the usual one for a folder of packages, which does not tell."""
    return (environment.platform if environment else "").replace("-", "_") or X86_64


def _find_build(wish: TorchWish, kb: KnowledgeBase) -> Remedy:
    platform = wheel_platform(wish.environment)
    others = [row for row in kb.torch_builds() if row.platform == platform and not _is_installed(row, wish)]
    builds = [row for row in others if _has_code(row, wish.capability, kb)]
    if not builds:
        return Remedy(summary=f"no torch build is known that has code for {wish.capability} on {platform}")

    runnable = [row for row in builds if _has_python(row, wish)]
    if not runnable:
        return _ask_for_another_python(builds, wish, kb)
    startable = [row for row in runnable if _has_glibc(row, wish)]
    if not startable:
        return _ask_for_another_system(runnable, wish)
    drivable = [row for row in startable if _has_driver(row, wish, kb)]
    if not drivable:
        elsewhere = [row for row in builds if _has_glibc(row, wish) and _has_driver(row, wish, kb)]
        return _ask_for_another_driver(startable, elsewhere, wish, kb)
    pins = tuple(_find_pins(wish))
    pinned = [row for row in drivable if not _broken(pins, row)] or drivable
    for_all = [row for row in pinned if all(_has_code(row, device, kb) for device in wish.beside)]
    return _install(for_all or pinned, wish, pins, kb)


# --- what fits ---------------------------------------------------------------------------------------------------


def _is_installed(row: TorchBuildRow, wish: TorchWish) -> bool:
    # Whatever the tables say of it, what is installed is not the way out.
    return wish.installed.version.partition("+")[0] == row.version and wish.installed.build_cuda_version == row.cuda


def _has_code(row: TorchBuildRow, device: ComputeCapability, kb: KnowledgeBase) -> bool:
    return any(arch.kind is CodeKind.SASS and kb.runs_on(arch, device) for arch in row.arch_list)


def _has_python(row: TorchBuildRow, wish: TorchWish) -> bool:
    if wish.environment is None or wish.python is None:
        return True
    is_free_threaded = any(re.match(r"\.cpython-\d+t-", suffix) for suffix in wish.environment.extension_suffixes)
    return f"cp{wish.python[0]}{wish.python[1]}{'t' if is_free_threaded else ''}" in row.pythons


def _has_glibc(row: TorchBuildRow, wish: TorchWish) -> bool:
    if wish.host is None or not isinstance(wish.host.glibc, str):
        return True
    try:
        return Version(wish.host.glibc) >= Version(row.glibc_min)
    except ValueError:
        return True  # a glibc of somebody's own: nothing says that it is older


def _has_driver(row: TorchBuildRow, wish: TorchWish, kb: KnowledgeBase) -> bool:
    return wish.driver_release is None or kb.driver_runs(wish.driver_release, row.cuda) is not False


def _find_pins(wish: TorchWish) -> Iterator[_Pin]:
    """Yield what the installed distributions demand of torch, as far as the installed one meets it."""
    for distribution in wish.distributions:
        if distribution.name in COMPANIONS or distribution.shadowed_by:
            continue
        for demand in find_demands(distribution.requires, _MENTIONS_TORCH, wish.environment):
            try:
                is_met = demand.is_met(wish.installed.version)
            except ValueError:
                continue  # a torch of somebody's own
            if demand.specifier and is_met:
                yield _Pin(distribution=distribution.name, specifier=demand.specifier)


def _broken(pins: tuple[_Pin, ...], row: TorchBuildRow) -> tuple[_Pin, ...]:
    return tuple(pin for pin in pins if not pin.specifier.contains(row.local_version, prereleases=True))


# --- which of those ----------------------------------------------------------------------------------------------


def _nearest(rows: list[TorchBuildRow], wish: TorchWish) -> TorchBuildRow:
    return min(rows, key=lambda row: (row.uncertain, _distance(row, wish)))


def _distance(row: TorchBuildRow, wish: TorchWish) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return _release_distance(row, wish), _cuda_distance(row, wish)


def _release_distance(row: TorchBuildRow, wish: TorchWish) -> tuple[int, ...]:
    """Order the same release first, then newer ones upwards, then older ones downwards; of a minor the last patch."""
    candidate, installed = Version(row.version), _installed_version(wish)
    if candidate.release == installed.release and not installed.is_prerelease:
        return (0,)
    if candidate > installed:
        return (1, candidate.major, candidate.minor, -candidate.micro)
    return (2, -candidate.major, -candidate.minor, -candidate.micro)


def _cuda_distance(row: TorchBuildRow, wish: TorchWish) -> tuple[int, ...]:
    """Order by the distance to the CUDA version in use; where none is, the default build first, then older CUDA."""
    used = wish.installed.build_cuda_version
    number = row.cuda.major * 10 + row.cuda.minor
    if used is None:
        return (not row.on_pypi, number)
    return (abs(number - used.major * 10 - used.minor), not row.on_pypi)


def _installed_version(wish: TorchWish) -> Version:
    try:
        return Version(wish.installed.version)
    except ValueError:  # InvalidVersion is one; and there are numbers that are too long for Python
        return Version("0")  # a build of somebody's own: every release counts as newer


# --- how to get it -----------------------------------------------------------------------------------------------


def _install(rows: list[TorchBuildRow], wish: TorchWish, pins: tuple[_Pin, ...], kb: KnowledgeBase) -> Remedy:
    row = _nearest(rows, wish)
    relation = ("the same release", "the nearest newer release", "the nearest older release")[_relation(row, wish)]
    if row.platform != X86_64 and _relation(row, wish):
        relation += " known here"  # of the builds for other machines the tables have few
    served = [str(device) for device in (wish.capability, *wish.beside) if _has_code(row, device, kb)]
    parts = [f"install torch {row.local_version}, {relation} with code for {enumerate_all(served)}"]
    parts += _reservations(row, rows, wish, kb)
    if broken := _broken(pins, row):
        parts.append(f"no build satisfies {', '.join(sorted(map(str, broken)))}, so replace that too")
    if compiled := sorted(_compiled_against_torch(wish) - {pin.distribution for pin in broken}):
        parts.append(f"then build or install {', '.join(compiled)} anew for it")
    return Remedy(summary="; ".join(parts), commands=tuple(_commands(row, wish, kb)))


def _relation(row: TorchBuildRow, wish: TorchWish) -> int:
    return _release_distance(row, wish)[0]


def _reservations(row: TorchBuildRow, rows: list[TorchBuildRow], wish: TorchWish, kb: KnowledgeBase) -> Iterator[str]:
    if wish.driver_release is None:
        oldest = _oldest_driver(row, wish, kb)
        yield f"it needs driver {oldest} or newer"
        older = [one for one in rows if one.version == row.version and one.cuda.major < row.cuda.major]
        if older and (would_do := _oldest_driver(older[0], wish, kb)) != oldest:
            yield f"for an older one, from {would_do} on, take {older[0].local_version}"
    if row.uncertain:
        yield "that this build exists and has that code is not certain"
    nearer = min(rows, key=lambda row: _distance(row, wish))
    if _relation(nearer, wish) < _relation(row, wish):
        yield f"{nearer.local_version} may exist too: that is not certain"
    if left_out := [device for device in wish.beside if not _has_code(row, device, kb)]:
        yield f"no build serves {enumerate_all(left_out)} as well"


def _oldest_driver(row: TorchBuildRow, wish: TorchWish, kb: KnowledgeBase) -> DriverRelease | None:
    """Name the first driver that runs a build, and that knows the card."""
    for_build, for_card = kb.minimum_driver(row.cuda), kb.first_driver_branch(wish.capability)
    return max((for_build, DriverRelease(str(for_card)))) if for_build and for_card else for_build


def _compiled_against_torch(wish: TorchWish) -> set[str]:
    # A C++ extension fits the torch whose headers it was compiled with; another CUDA version can mean another C++ ABI.
    return {
        code.distribution
        for code in wish.device_code
        if code.role is LibraryRole.EXTENSION
        and code.distribution not in {"", *COMPANIONS}
        and any(name.startswith(("libtorch", "libc10")) for name in code.needed)
    }


def _commands(row: TorchBuildRow, wish: TorchWish, kb: KnowledgeBase) -> Iterator[str]:
    prefix = wish.environment.prefix if wish.environment else ""
    by_conda = sorted(
        distribution.name
        for distribution in wish.distributions
        if distribution.metadata_kind is MetadataKind.CONDA_META and distribution.name in _CONDA_NAMES
    )
    if by_conda:
        # Left in place, both own the same files, and the next `conda install` brings conda's build back.
        yield f"conda remove --prefix {shlex.quote(prefix)} {' '.join(by_conda)}"
    words = [pip_install(wish.environment)]
    if "torch" not in row.tagged and _relation(row, wish) == 0 and not by_conda:
        # Without a tag, another build of the release counts as installed. What it needs is there, and would be
        # replaced by the newest: `--force-reinstall` means that too.
        words.append("--force-reinstall --no-deps")
    words += [row.requirement, *_companion_requirements(row, wish, kb)]
    if row.index_option:
        words.append(row.index_option)
    yield " ".join(words)


def pip_install(environment: Environment | None) -> str:
    """Return how to start `pip install` for an environment, up to the first requirement."""
    if environment is None:
        return "python -m pip install"
    if isinstance(environment.interpreter, str):
        return f"{shlex.quote(environment.interpreter)} -m pip install{_consent(environment)}"
    version = environment.python_version
    python = ".".join(map(str, version[:2])) if isinstance(version, tuple) and version[1:] else ""
    # With --prefix pip would uninstall torch from the environment that it runs in itself.
    place = "--upgrade --target" if environment.kind == "bare site-packages" else "--ignore-installed --prefix"
    return f"python{python} -m pip install {place} {shlex.quote(environment.prefix)}"


def pip_uninstall(environment: Environment | None, *names: str) -> tuple[str, ...]:
    """Return the command that removes distributions from an environment; () where it has no pip that would."""
    if environment is None:
        return (f"python -m pip uninstall --yes {' '.join(names)}",)
    if not isinstance(environment.interpreter, str):
        return ()
    pip = f"{shlex.quote(environment.interpreter)} -m pip uninstall{_consent(environment)}"
    return (f"{pip} --yes {' '.join(names)}",)


def _consent(environment: Environment) -> str:
    """Return the option that a Python of the system's package manager asks for (PEP 668).

    What is to be changed lies there already, so a virtual environment would not mend it. pip knows the option from
    23.0.1 on, and looks for the marker from the same release on.
    """
    return " --break-system-packages" if environment.externally_managed else ""


def _companion_requirements(row: TorchBuildRow, wish: TorchWish, kb: KnowledgeBase) -> Iterator[str]:
    versions = kb.companions(row.version)
    installed = {distribution.name for distribution in wish.distributions}
    for project in COMPANIONS:
        if project in installed:
            yield row.companion_requirement(project, versions[project]) if project in versions else project


# --- what stands in the way ---------------------------------------------------------------------------------------


def _ask_for_another_python(builds: list[TorchBuildRow], wish: TorchWish, kb: KnowledgeBase) -> Remedy:
    row = _nearest([row for row in builds if _has_driver(row, wish, kb)] or builds, wish)
    return Remedy(
        summary=f"no torch with code for {wish.capability} runs on {wish.python_name}: make an environment with "
        f"another; torch {row.local_version} exists for {_pythons_of(row)}"
    )


def _pythons_of(row: TorchBuildRow) -> str:
    versions = [f"{tag[2]}.{tag[3:]}" for tag in row.pythons if not tag.endswith("t")]
    return f"Python {versions[0]} to {versions[-1]}"


def _ask_for_another_system(builds: list[TorchBuildRow], wish: TorchWish) -> Remedy:
    row = _nearest(builds, wish)
    assert wish.host is not None
    return Remedy(
        summary=f"every torch for {wish.python_name} with code for {wish.capability} needs a newer glibc than "
        f"{wish.host.glibc}: use a system or container image with glibc {row.glibc_min} or newer, then install torch "
        f"{row.local_version}",
        needs_admin=True,
    )


def _ask_for_another_driver(
    builds: list[TorchBuildRow], elsewhere: list[TorchBuildRow], wish: TorchWish, kb: KnowledgeBase
) -> Remedy:
    """Name the oldest driver that would do for *builds*, and a build of *elsewhere*: for other Pythons, and it runs."""
    oldest = min(row.cuda.major for row in builds)  # each major version of CUDA has its own oldest driver
    row = _nearest([row for row in builds if row.cuda.major == oldest], wish)
    summary = (
        f"every torch for {wish.python_name} with code for {wish.capability} needs a newer driver than "
        f"{wish.driver_release}: redeploy on a host with driver {_oldest_driver(row, wish, kb)} or newer, then install "
        f"torch {row.local_version}"
    )
    if elsewhere:
        other = _nearest(elsewhere, wish)
        summary += f"; or make an environment with {_pythons_of(other)}: torch {other.local_version} runs here"
    return Remedy(summary=summary, commands=tuple(_commands(row, wish, kb)), needs_admin=not elsewhere)


def _find_foreign_folder(torch: TorchBuild, environment: Environment | None) -> SearchEntry | None:
    """Find the folder that torch lies in, if what pip installs into the environment would come behind it.

    In a conda environment the user site does, to which pip installs in others where they cannot be written.
    """
    for entry in environment.search_path if environment else ():
        if environment and entry.path == torch.root.rpartition("/")[0]:
            comes_first = entry.origin == "PYTHONPATH" or (entry.origin == "user site" and environment.kind == "conda")
            return entry if comes_first else None
    return None


def _keep_out(foreign: SearchEntry, environment: Environment | None) -> tuple[str, tuple[str, ...]]:
    start = f"torch lies in {foreign.path} ({foreign.origin}), before the environment's own packages: "
    if foreign.origin != "PYTHONPATH":
        return start + "keep it out with PYTHONNOUSERSITE=1, here and in the job", ("export PYTHONNOUSERSITE=1",)
    entries = environment.search_path if environment else ()
    kept = [entry.path for entry in entries if entry.origin == "PYTHONPATH" and entry.path != foreign.path]
    command = f"export PYTHONPATH={shlex.quote(':'.join(kept))}" if kept else "unset PYTHONPATH"
    return start + "take it out of PYTHONPATH, here and in the job", (command,)
