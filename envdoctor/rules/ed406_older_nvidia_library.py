"""A wheel of NVIDIA's is older than a framework asks for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from envdoctor.kb.torch_choice import pip_install
from envdoctor.model.facts import Distribution, Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.loading import Loader
from envdoctor.model.requirements import read_demand
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.wording import enumerate_all

# What stands for the cuDNN that torch brings along inside its own folder.
_CUDNN_OF_TORCH = "torch's cuDNN"
_CUDNN_WHEEL = "nvidia-cudnn"
# jaxlib 0.4.23+cuda12.cudnn89: up to 0.4.25 the local version tells the cuDNN that it was compiled with.
_CUDNN_MARK = re.compile(r"\+cuda(\d+)\.cudnn(\d)(\d+)$")
_REQUIREMENT = re.compile(
    r"(?P<library>nvidia-[\w.-]*\w)[^;]*?(?P<operator>==|>=|~=)\s*(?P<major>\d{1,6})(?:\.(?P<minor>\d{1,6}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The oldest version of a library that one distribution can do with."""

    library: str  # name of the wheel, or `_CUDNN_OF_TORCH`
    oldest: tuple[int, int]
    by: str
    source: str
    text: str  # the requirement, or the version, that says so

    def applies(self, environment: Environment | None) -> bool:
        """Tell whether the requirement concerns this interpreter and machine; a version does."""
        try:
            return (
                not self.text.startswith("nvidia") or read_demand(self.text, environment, with_extras=True) is not None
            )
        except ValueError:
            return False  # pip of its time accepted more than the standard does


@rule("ED406", Severity.WARNING, "a library of NVIDIA is older than a framework was made with")
def older_nvidia_library(
    distributions: tuple[Distribution, ...],
    environment: Environment | None = None,
    torch: TorchBuild | None = None,
    loader: Loader | None = None,
) -> Conclusions:
    """
    ## What it means
    A framework was compiled with a newer cuDNN, NCCL or cuBLAS than the one that it will find in its process. Libraries
    of NVIDIA serve programs that were compiled with an older minor version, not the reverse. torch says
    `cuDNN version incompatibility: PyTorch was compiled against ...`; JAX says `Loaded runtime CuDNN library: 8.7.0 but
    source was compiled with: 8.8.0`, and falls back to the CPU.

    ## How envdoctor knows
    The metadata of every installed distribution say which wheels of NVIDIA it wants, also those for its extras
    (`tensorflow[and-cuda]`, `jax[cuda12]`), of whose exact versions only that of cuDNN counts; of jaxlib before 0.4.26
    the local version tells (`+cuda12.cudnn89`). It compares the first two numbers with those of the installed wheel, or
    of the cuDNN that torch brings along: torch and JAX in one process share the one that is imported first.

    ## Why it happens
    Each framework pins its own cuDNN, the environment holds one, and the last install wins: pip warns of that in the
    middle of its output, and goes on.

    ## How to fix it
    Give each framework an environment of its own. Otherwise install the newest minor version that one of them asks for:
    it serves the others too. To import torch later or earlier only changes which of them fails.

    ## When to ignore it
    When the framework that wants the newer one is not used on the GPU.
    """
    present = _find_present(distributions, torch)
    torch_fails = loader is not None and loader.torch is not None  # another rule says why
    older: dict[str, dict[_Need, None]] = {}
    for need in _find_needs(distributions):
        version = present.get(need.library, "")
        # To parse a requirement takes long, and those of `cuda-toolkit` are a hundred: only what counts is parsed.
        if _is_older(version, need.oldest) and need.applies(environment) and not (torch_fails and need.by == "torch"):
            older.setdefault(need.by, {})[need] = None
    for by, needs in sorted(older.items()):
        yield _conclude(by, sorted(needs, key=lambda need: (need.library, need.text)), present, environment)


def _find_present(distributions: tuple[Distribution, ...], torch: TorchBuild | None) -> dict[str, str]:
    """Return the versions of the wheels of NVIDIA that are installed, and of the cuDNN of a torch that needs none."""
    present = {
        each.name: each.version
        for each in distributions
        if each.name.startswith("nvidia-") and not each.shadowed_by and isinstance(each.version, str)
    }
    owner = next((each for each in distributions if torch and each.metadata_path == torch.distribution), None)
    uses_wheel = any(text.startswith(_CUDNN_WHEEL) for text in owner.requires) if owner else False
    if torch and isinstance(torch.cudnn_version, str) and not uses_wheel:
        present[_CUDNN_OF_TORCH] = torch.cudnn_version
    return present


def _find_needs(distributions: tuple[Distribution, ...]) -> Iterator[_Need]:
    for each in distributions:
        if each.shadowed_by or not isinstance(each.version, str):
            continue
        source = each.metadata_path.rpartition("/")[2]
        for match in filter(None, map(_REQUIREMENT.match, each.requires)):
            library = re.sub(r"[-_.]+", "-", match["library"]).lower()
            # What an extra pins is what was new then, and no need; but cuDNN is asked for its version.
            is_choice = match["operator"] == "==" and "extra" in match.string
            if not is_choice or library.startswith(_CUDNN_WHEEL):
                oldest = (int(match["major"]), int(match["minor"] or 0))
                need = _Need(library=library, oldest=oldest, by=each.name, source=source, text=match.string)
                yield from _with_cudnn_of_torch(need)
        if mark := _CUDNN_MARK.search(each.version):
            library, oldest = f"{_CUDNN_WHEEL}-cu{mark[1]}", (int(mark[2]), int(mark[3]))
            need = _Need(library=library, oldest=oldest, by=each.name, source=source, text=each.version)
            yield from _with_cudnn_of_torch(need)


def _with_cudnn_of_torch(need: _Need) -> Iterator[_Need]:
    yield need
    if need.library.startswith(_CUDNN_WHEEL) and need.by != "torch":
        yield replace(need, library=_CUDNN_OF_TORCH)


def _is_older(version: str, oldest: tuple[int, int]) -> bool:
    """Tell whether a version is older than a minor version of its own major: others have other file names."""
    numbers = re.match(r"(\d{1,6})\.(\d{1,6})", version)
    return numbers is not None and int(numbers[1]) == oldest[0] and int(numbers[2]) < oldest[1]


def _conclude(by: str, needs: list[_Need], present: dict[str, str], environment: Environment | None) -> Finding:
    newest = {need.library: max(one.oldest for one in needs if one.library == need.library) for need in needs}
    lacking = (f"{library} {present[library]} ({major}.{minor} or newer)" for library, (major, minor) in newest.items())
    wheels = [f"'{name}>={major}.{minor},<{major + 1}'" for name, (major, minor) in newest.items() if "-" in name]
    apart = f"give {by} an environment of its own"
    return Finding(
        message=f"too old for {by}: {enumerate_all(lacking)}",
        evidence=tuple(dict.fromkeys(Evidence(source=need.source, value=need.text) for need in needs)),
        remedy=Remedy(
            summary=f"{apart}, or install newer ones, which serve the others too",
            commands=(f"{pip_install(environment)} --no-deps {' '.join(wheels)}",),
        )
        if wheels and _CUDNN_OF_TORCH not in newest
        else Remedy(summary=f"{apart}: torch loads the cuDNN that it brings along"),
    )
