"""Read what torch.toml says about releases out of their real wheels again, and report every difference.

    python -m tools.refresh_kb 1.13.1 2.8.0 [--folder DIR]

Per release one wheel for Linux x86_64 is downloaded (up to 900 MB), read and deleted; the indexes are those of pip's
configuration. Of its companions only the metadata are read. Exit code 1: something differs; 2: it could not be told.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from envdoctor import kb as knowledge
from envdoctor.binary.image import read_image
from envdoctor.binary.reader import open_file
from envdoctor.errors import EnvdoctorError
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_builds import X86_64
from envdoctor.model.arch import Arch, format_arch_list
from envdoctor.model.facts import TorchBuild, Unavailable
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environment import find_environment
from envdoctor.probes.torch_build import read_torch_build

PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64", "linux_x86_64")

# What tells a build; the rest of a wheel is headers, tests and libraries of NVIDIA.
MEMBERS = (
    "torch/__init__.py",
    "torch/version.py",
    "torch/_C.",
    "torch/lib/libtorch",
    "torch/lib/libcaffe2",
)

# Up to 1.12 the only library that holds the build's own architectures and nothing that was linked in.
PURE_LIBRARY = "libcaffe2_detectron_ops_gpu.so"


class RefreshError(EnvdoctorError):
    """A wheel could not be had or read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the wheels of one release say, or what the table says about them: texts that can be compared."""

    arch_list: str
    cuda: str
    cxx11_abi: str
    pythons: str
    companions: str

    def differences(self, table: "Reading") -> Iterator[str]:
        """Yield one line for each thing that the table says otherwise."""
        for field in fields(self):
            read, said = getattr(self, field.name), getattr(table, field.name)
            if read != said:
                yield f"{field.name}: the wheel says {read}, the table says {said}"


# --- asking pip --------------------------------------------------------------------------------------------------


def run_pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pip of this interpreter, with the indexes of its configuration."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def choose_wheel(tag: str) -> list[str]:
    """Return pip's options for a wheel of one Python tag ("cp37", "cp313t") on Linux x86_64."""
    version = tag.removeprefix("cp").removesuffix("t")
    # The newest patch: Requires-Python of old releases leaves the first ones out (>=3.6.2).
    python = f"--python-version={version[0]}.{version[1:]}.99"
    options = ["--no-deps", "--only-binary=:all:", "--implementation=cp", python]
    abis = {"27": ("cp27mu", "cp27m")}.get(version, (tag, f"{tag}m", "abi3", "none"))
    return [*options, *(f"--abi={abi}" for abi in abis), *(f"--platform={platform}" for platform in PLATFORMS)]


def read_metadata(requirement: str, tag: str) -> dict[str, Any] | None:
    """Return what pip would install for one Python tag; None when there is no wheel.

    Raises:
        RefreshError: pip could not tell.

    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--quiet", "--dry-run", "--ignore-installed", f"--target={folder}", f"--report={report}"]
        done = run_pip("install", *options, *choose_wheel(tag), requirement)
        if "No matching distribution found" in done.stderr:
            return None
        if done.returncode:
            raise RefreshError(f"pip does not tell about {requirement}: {done.stderr.strip()[-500:]}")
        [install] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return dict(install)


def find_pythons(kb: KnowledgeBase, version: str) -> tuple[str, ...]:
    """Return the Python tags that have a wheel of a release."""
    known = tuple(dict.fromkeys(tag for row in kb.torch_releases.values() for tag in row.pythons))
    return tuple(tag for tag in known if _has_wheel(version, tag))


def _has_wheel(version: str, tag: str) -> bool:
    found = read_metadata(f"torch=={version}", tag)
    if found is None:
        return False
    _, _, _, tags = parse_wheel_filename(found["download_info"]["url"].rsplit("/", 1)[-1].replace("%2B", "+"))
    return any(wheel.interpreter == tag.removesuffix("t") for wheel in tags)


def read_companions(companions: dict[str, str], version: str, pythons: tuple[str, ...]) -> str:
    """Return the companions of the table whose metadata fit the release."""
    fitting = [
        f"{name} {companion}" for name, companion in companions.items() if _fits(name, companion, version, pythons)
    ]
    return ", ".join(fitting)


def _fits(project: str, companion: str, version: str, pythons: tuple[str, ...]) -> bool:
    found = next(filter(None, (read_metadata(f"{project}=={companion}", tag) for tag in reversed(pythons))), None)
    if found is None:
        return False
    requirements = map(Requirement, found["metadata"].get("requires_dist", []))
    pins = [pin for pin in requirements if canonicalize_name(pin.name) == "torch"]
    # The metadata of torchvision 0.11.0 pin a build: torch==1.10.0+cu102.
    return all(pin.specifier.contains(version) or f"=={version}+" in str(pin.specifier) for pin in pins)


# --- reading a wheel ---------------------------------------------------------------------------------------------


def read_release(kb: KnowledgeBase, version: str, folder: Path) -> Reading:
    """Download one wheel of a release into *folder*, and read it.

    Raises:
        RefreshError: there is no wheel, or it cannot be read.

    """
    pythons = find_pythons(kb, version)
    if not pythons:
        raise RefreshError(f"no index has a wheel of torch {version} for Linux x86_64")
    plain = [tag for tag in pythons if not tag.endswith("t")]
    done = run_pip("download", "--quiet", f"--dest={folder}", *choose_wheel(plain[-1]), f"torch=={version}")
    if done.returncode:
        raise RefreshError(f"torch {version}: {done.stderr.strip().splitlines()[-1]}")
    [wheel] = folder.glob("*.whl")
    build = read_wheel(wheel)
    return Reading(
        arch_list=format_arch_list(tuple(sorted(read_arch_list(build)))),
        cuda=str(build.build_cuda_version),
        cxx11_abi=str(build.cxx11_abi),
        pythons=" ".join(pythons),
        companions=read_companions(kb.companions(version), version, pythons),
    )


def read_wheel(wheel: Path) -> TorchBuild:
    """Unpack what tells a build beside the wheel, and read it as an installed one."""
    site_packages = wheel.parent / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        wanted = [name for name in archive.namelist() if name.startswith(MEMBERS) or ".dist-info/" in name]
        archive.extractall(site_packages, wanted)
    wheel.unlink()
    environment = find_environment(python="", prefix=str(site_packages))
    build = read_torch_build(environment, find_distributions(environment))
    if isinstance(build, Unavailable):
        raise RefreshError(f"{wheel.name}: {build.reason}")
    return build


def read_arch_list(build: TorchBuild) -> tuple[Arch, ...]:
    """Return the architectures of a build, and hold them against its device code."""
    if isinstance(build.arch_list, Unavailable):  # torch before 1.2 says them nowhere
        pure = next(path for path in map(Path, build.libraries) if path.name == PURE_LIBRARY)
        return tuple(count_archs(pure))
    counts = [count_archs(Path(library)) for library in build.libraries]
    largest = max(counts, key=lambda count: count.total())
    if absent := [str(arch) for arch in build.arch_list if arch not in largest]:
        raise RefreshError(f"torch {build.version} lists {', '.join(absent)}, but has no such device code")
    return build.arch_list


def count_archs(library: Path) -> Counter[Arch]:
    """Count the containers of a library that hold code for each architecture."""
    counts: Counter[Arch] = Counter()
    with open_file(library) as reader:
        for group in read_image(reader).containers:
            counts.update(dict.fromkeys({entry.arch for entry in group.code}, group.count))
    return counts


# --- comparing ---------------------------------------------------------------------------------------------------


def read_table(kb: KnowledgeBase, version: str) -> Reading | None:
    """Return what torch.toml says about the default build of a release; None when it is not there."""
    release = kb.torch_release(version)
    builds = [row for row in kb.torch_builds() if row.version == version and row.platform == X86_64 and row.on_pypi]
    if release is None or not builds:
        return None
    [build] = builds
    return Reading(
        arch_list=format_arch_list(tuple(sorted(build.arch_list))),
        cuda=str(build.cuda),
        cxx11_abi=str(build.cxx11_abi),
        pythons=" ".join(release.pythons),
        companions=", ".join(f"{name} {companion}" for name, companion in kb.companions(version).items()),
    )


def refresh(kb: KnowledgeBase, version: str, parent: Path) -> bool:
    """Report on one release; tell whether the table agrees with it."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        reading = read_release(kb, version, Path(folder))
    table = read_table(kb, version)
    if table is None:
        print(f"torch {version} is not in the table: {reading}")
        return False
    differences = list(reading.differences(table))
    for difference in differences:
        print(f"torch {version}: {difference}")
    if not differences:
        print(f"torch {version}: agrees ({reading})")
    return not differences


def main() -> int:
    """Parse the command line and report on each release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="+", metavar="RELEASE")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the wheels go meanwhile"
    )
    arguments = parser.parse_args()

    kb = knowledge.load()
    try:
        agree = [refresh(kb, version, arguments.folder) for version in arguments.releases]
    except EnvdoctorError as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
