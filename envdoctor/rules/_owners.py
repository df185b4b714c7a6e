"""Distributions that brought different files for the same places, and how to get them apart."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from envdoctor.kb.torch_choice import pip_install, pip_uninstall
from envdoctor.model.facts import ContestedFolder, Distribution, Environment
from envdoctor.model.finding import Evidence
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._coverage import short_path

# What marks the variant that has all the others have, and more: onnxruntime-gpu, mmcv-full, opencv-contrib-python.
_FULLER = re.compile(r"(^|-)(gpu|full|contrib)(-|$)")
_SHOWN = 4


def find_installed(name: str, distributions: tuple[Distribution, ...]) -> Distribution | None:
    """Return the distribution that the interpreter finds under a name."""
    return next((each for each in distributions if each.name == name and not each.shadowed_by), None)


def describe_versions(names: tuple[str, ...], distributions: tuple[Distribution, ...]) -> str:
    """Write ``onnxruntime 1.17.0 and onnxruntime-gpu 1.17.1``."""
    versions = ((name, find_installed(name, distributions)) for name in names)
    return enumerate_all(f"{name} {each.version}" if each else name for name, each in versions)


def main_owner(folders: Iterable[ContestedFolder]) -> str:
    """Name the distribution that most of the files are of; "" where none is of any."""
    counts = Counter(file.owner for folder in folders for file in folder.files if file.owner)
    return min(counts, key=lambda name: (-counts[name], name), default="")


def fullest(names: Iterable[str]) -> str:
    """Name the variant that has more than the others by its name; "" where none says so."""
    return next(filter(_FULLER.search, names), "")


def describe_files(folders: Sequence[ContestedFolder]) -> Iterator[Evidence]:
    """Say whose the first files are."""
    files = [file for folder in folders for file in folder.files]
    for file in sorted(files, key=lambda file: file.path.endswith(".py"))[:_SHOWN]:
        whose = f"is that of {file.owner}" if file.owner else "is that of none of them, or cannot be told apart"
        yield Evidence(source=short_path(file.path), value=whose)
    if (more := sum(folder.contested for folder in folders) - _SHOWN) > 0:
        yield Evidence(source="lists of installed files (RECORD)", value=f"{more} more files that both claim")


def replacement_commands(
    remove: tuple[str, ...], keep: tuple[str, ...], environment: Environment | None
) -> tuple[str, ...]:
    """Remove distributions together and install requirements anew; () where pip cannot be run for the environment."""
    uninstall = pip_uninstall(environment, *remove)
    if not uninstall or not keep:
        return uninstall
    return (*uninstall, f"{pip_install(environment)} --no-deps {' '.join(map(shlex.quote, keep))}")
