"""A package that is made for another release of torch than the installed one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.companion_choice import CompanionWish, companion_remedy
from envdoctor.kb.torch_choice import pip_install
from envdoctor.model.facts import Companion, Distribution, Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.loading import Loader
from envdoctor.model.requirements import Demand, find_demands
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_verdicts import find_refused
from envdoctor.rules._pairing import is_of_release, meets

_ON_TORCH = re.compile(r"torch\s*(?:$|[^\w.\s-])", re.IGNORECASE)
_TRITONS = frozenset({"triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm"})
_ON_TRITON = re.compile(r"(?:pytorch[-_])?triton\b", re.IGNORECASE)

# Before, torchvision was Python alone, and fitted many releases of torch.
_FIRST_COMPILED = {"torchvision": Version("0.3"), "torchaudio": Version("0.3")}
# From then on torchaudio names no torch on purpose: it is built for the stable ABI.
_FIRST_STABLE = Version("2.11")


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """One distribution that was made for another torch, and what says so."""

    name: str
    version: str
    says: str  # "is made for torch 2.8.0", "asks for torch>=2.14"
    evidence: Evidence


@rule("ED401", Severity.WARNING, "a package is made for another release of torch")
def mismatched_companion(
    torch: TorchBuild,
    distributions: tuple[Distribution, ...],
    kb: KnowledgeBase,
    companions: tuple[Companion, ...] = (),
    environment: Environment | None = None,
    loader: Loader | None = None,
) -> Conclusions:
    """
    ## What it means
    torchvision, torchaudio, xformers, flash-attn and other packages are compiled against one release of torch, whose
    C++ interface changes with each. Beside another they cannot be loaded (`undefined symbol`,
    `operator torchvision::nms does not exist`), say `xFormers can't load C++/CUDA extensions` and run slowly, or work
    by luck. The triton beside torch is the part of it that `torch.compile` calls.

    ## How envdoctor knows
    The metadata of the package name one version of torch; or the local version of its wheel does (`+pt113cu117`,
    `+cu12torch2.6cxx11abiFALSE`); or the releases of torchvision and torchaudio that name none are in the table of
    those that were released together. Local versions do not count: torch 2.1.2+cu121 is a torch 2.1.2. Where the
    dynamic loader refuses a library of the package, the finding about that takes the place of this one.

    ## Why it happens
    A later `pip install` replaced torch and left what was built for it; or torch and its companions were installed in
    different commands, or from different indexes.

    ## How to fix it
    Install torch and its companions in one command from one index, and keep torch pinned in a constraints file when
    other packages are installed. What is compiled against torch is built anew, without pip's cache.

    ## When to ignore it
    When the package is not used, or its makers say that it works with this torch although its metadata do not.
    """
    installed = [each for each in distributions if not each.shadowed_by]
    mismatches: dict[str, list[_Mismatch]] = {}
    for mismatch in (
        *_find_broken_demands(torch, installed, {each.distribution for each in companions}, environment),
        *_find_other_marks(torch, installed, companions, environment),
        *_find_other_pairs(torch, installed, kb, environment),
    ):
        mismatches.setdefault(mismatch.name, []).append(mismatch)
    wish = CompanionWish(torch=torch, environment=environment, distributions=distributions)
    scene = Scene(loader=loader, kb=kb, torch=torch, distributions=distributions) if loader else None
    refused = find_refused(scene) if scene else frozenset()
    for name, found in sorted(mismatches.items()):
        if name not in refused:
            yield Finding(
                message=f"{name} {found[0].version} {found[0].says}, and torch {torch.version} is installed",
                evidence=(
                    *dict.fromkeys(each.evidence for each in found),
                    Evidence(source="torch/version.py", value=torch.version),
                ),
                remedy=companion_remedy(name, wish, kb),
            )
    yield from _judge_triton(torch, installed, environment)


# --- torch -------------------------------------------------------------------------------------------------------


def _find_broken_demands(
    torch: TorchBuild, installed: list[Distribution], companions: set[str], environment: Environment | None
) -> Iterator[_Mismatch]:
    """Yield who names a version of torch that this is not; of ranges only what is compiled against torch counts."""
    for each in installed:
        for demand in find_demands(each.requires, _ON_TORCH, environment):
            if (demand.is_exact or each.name in companions) and not meets(torch, demand):
                exact = demand.is_exact and len(demand.specifier) == 1
                wanted = f"is made for torch {str(demand.specifier).lstrip('=')}" if exact else f"asks for {demand}"
                yield _Mismatch(each.name, str(each.version), wanted, _evidence_of(each, demand))


def _find_other_marks(
    torch: TorchBuild,
    installed: list[Distribution],
    companions: tuple[Companion, ...],
    environment: Environment | None,
) -> Iterator[_Mismatch]:
    """Yield whose files name another torch, unless its metadata allow a range: xformers 0.0.35 fits later ones too."""
    allowing = {
        each.name
        for each in installed
        if any(demand.specifier for demand in find_demands(each.requires, _ON_TORCH, environment))
    }
    for each in companions:
        is_marked = each.torch_release and each.distribution not in allowing
        if is_marked and not is_of_release(torch.version, each.torch_release):
            says = f"is made for torch {each.torch_release}"
            yield _Mismatch(each.distribution, each.version, says, Evidence(source=each.source, value=each.version))


def _find_other_pairs(
    torch: TorchBuild, installed: list[Distribution], kb: KnowledgeBase, environment: Environment | None
) -> Iterator[_Mismatch]:
    """Yield the companions that name no version of torch, and were released with another one."""
    for each in installed:
        if each.name not in _FIRST_COMPILED or not isinstance(each.version, str):
            continue
        release = each.version.partition("+")[0]
        belonging = [version for version in kb.torch_releases if kb.companions(version).get(each.name) == release]
        is_old = all(Version(version) < _FIRST_STABLE for version in belonging)
        is_named = any(demand.is_exact for demand in find_demands(each.requires, _ON_TORCH, environment))
        if not belonging or not is_old or is_named or Version(release) < _FIRST_COMPILED[each.name]:
            continue
        minors = {version.rpartition(".")[0] for version in belonging}
        if not any(is_of_release(torch.version, minor) for minor in minors):
            says = f"was released with torch {belonging[-1]}"
            evidence = Evidence(source=_metadata_of(each), value=f"{each.name} {each.version} names no torch")
            yield _Mismatch(each.name, each.version, says, evidence)


# --- triton ------------------------------------------------------------------------------------------------------


def _judge_triton(
    torch: TorchBuild, installed: list[Distribution], environment: Environment | None
) -> Iterator[Finding]:
    owner = next((each for each in installed if each.metadata_path == torch.distribution), None)
    if owner is None or owner.installer == "conda":
        return
    tritons = {each.name: each for each in installed if each.name in _TRITONS and isinstance(each.version, str)}
    # What names the installed version need not be taken apart.
    others = (text for text in owner.requires if not any(f"=={each.version}" in text for each in tritons.values()))
    for demand in find_demands(others, _ON_TRITON, environment):
        triton = tritons.get(demand.project.replace("_", "-").lower())
        if triton and demand.is_exact and not _is_met(demand, str(triton.version)):
            wanted = str(demand.specifier).lstrip("=")
            yield Finding(
                message=f"torch {torch.version} is made for {triton.name} {wanted}, and {triton.name} "
                f"{triton.version} is installed",
                evidence=(
                    _evidence_of(owner, demand),
                    Evidence(source=_metadata_of(triton), value=str(triton.version)),
                ),
                remedy=Remedy(
                    summary=f"install the {triton.name} that this torch asks for",
                    commands=(f"{pip_install(environment)} {demand}",),
                ),
            )


def _is_met(demand: Demand, version: str) -> bool:
    try:
        return demand.is_met(version)
    except ValueError:  # a version of somebody's own
        return True


# --- what metadata say -------------------------------------------------------------------------------------------


def _evidence_of(distribution: Distribution, demand: Demand) -> Evidence:
    return Evidence(source=_metadata_of(distribution), value=f"Requires-Dist: {demand}")


def _metadata_of(distribution: Distribution) -> str:
    return distribution.metadata_path.rpartition("/")[2]
