"""Which failures of the dynamic loader break the import of a package, and which matter less, or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from envdoctor.kb.tables import LoadEffect, LoadEffectRow
from envdoctor.model import bitsandbytes
from envdoctor.model.loading import BUS_ERROR, FailedLoad, Loader, LoadFault, LoadWay
from envdoctor.rules._load_causes import Cause, find_cause, is_torch_library
from envdoctor.rules._load_origin import find_origin, find_origin_of_symbols
from envdoctor.rules._load_scene import Scene

# Nothing that ninja looks at tells of a C library or of LD_LIBRARY_PATH. Of another torch in the same place the headers
# may: it compiles .cu files anew where those are newer.
_LASTING = frozenset({Cause.OLD_SYSTEM, Cause.OVERRIDDEN})

_END = "Python itself ends at once, without a traceback: no code can catch that"


class Standing(Enum):
    """What follows from a failure, the worst first."""

    CERTAIN = "importing the package fails, or the library can never be used"
    GOES_ON = "the import goes on without the library"
    LAZY = "it fails when the library is first used"
    SUSPECTED = "nothing shows that the library is imported"
    NOTHING = "healthy environments have such failures"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLoad:
    """One failure, its cause, and what follows from it."""

    failed: FailedLoad
    cause: Cause
    standing: Standing
    seen: str  # what the user sees instead of the loader's words, "" when these


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPackage:
    """What the loader refuses of one distribution: one way out serves all of it."""

    told: tuple[JudgedLoad, ...]  # the worst, of one cause
    others: tuple[JudgedLoad, ...]

    @property
    def standing(self) -> Standing:
        """What follows for the package."""
        return self.told[0].standing

    @property
    def cause(self) -> Cause:
        """What is to blame."""
        return self.told[0].cause


def judge_packages(scene: Scene) -> Iterator[BrokenPackage]:
    """Yield every distribution with failures that matter; a library that none owns counts as one."""
    packages: dict[str, list[JudgedLoad]] = {}
    for load in sorted(judge_loads(scene), key=_order):
        packages.setdefault(load.failed.distribution or load.failed.library, []).append(load)
    for name in sorted(packages):
        worst = packages[name][0]
        told: list[JudgedLoad] = []
        others: list[JudgedLoad] = []
        for load in packages[name]:
            is_told = (load.standing, load.cause) == (worst.standing, worst.cause)
            (told if is_told else others).append(load)
        yield BrokenPackage(told=tuple(told), others=tuple(others))


def find_refused(scene: Scene) -> frozenset[str]:
    """Find the distributions that are reported because the loader refuses a library of theirs beside torch."""
    packages = judge_packages(scene)
    loads = (load.failed for package in packages for load in (*package.told, *package.others))
    return frozenset(failed.distribution for failed in loads if failed.needs_torch)


def judge_loads(scene: Scene) -> Iterator[JudgedLoad]:
    """Yield every failure that matters."""
    for failed in scene.loader.failed:
        row = _find_row(failed, scene)
        cause = _find_cause(failed, scene)
        standing = _stand(failed, cause, _find_effect(failed, row), scene)
        if standing is not Standing.NOTHING:
            seen = _END if failed.failure.ends_process else row.seen if row else ""
            yield JudgedLoad(failed=failed, cause=cause, standing=standing, seen=seen)


def _order(load: JudgedLoad) -> tuple[int, int, str]:
    return list(Standing).index(load.standing), list(Cause).index(load.cause), load.failed.library


def _find_cause(failed: FailedLoad, scene: Scene) -> Cause:
    """Find the cause; what was built for another torch, and so for the other ABI, has the former as its cause."""
    cause = find_cause(failed.failure, scene.loader)
    if cause is not Cause.OTHER_ABI:
        return cause
    origin = find_origin(failed.distribution, scene) or find_origin_of_symbols(failed.failure, scene)
    return Cause.OTHER_TORCH if origin else cause


def _find_row(failed: FailedLoad, scene: Scene) -> LoadEffectRow | None:
    if failed.way is LoadWay.CACHED:  # of no package
        return None
    return scene.kb.load_effect(failed.library, scene.version_of(failed.distribution))


def _find_effect(failed: FailedLoad, row: LoadEffectRow | None) -> LoadEffect | None:
    if row is None:
        return LoadEffect.LAZY if failed.way is LoadWay.LAZY else None
    # Of the variants of bitsandbytes the facts hold the one that is loaded.
    is_chosen = row.effect is LoadEffect.VARIANT and failed.distribution == bitsandbytes.DISTRIBUTION
    return LoadEffect.GOES_ON if is_chosen else row.effect


def _stand(failed: FailedLoad, cause: Cause, effect: LoadEffect | None, scene: Scene) -> Standing:
    waits_for_torch = failed.needs_torch and scene.loader.torch is not None
    if effect is LoadEffect.VARIANT or cause is Cause.DRIVER or waits_for_torch or _may_be_mended(failed):
        return Standing.NOTHING
    if failed.way is LoadWay.CACHED:
        return Standing.CERTAIN if cause in _LASTING else Standing.SUSPECTED
    if effect is LoadEffect.LAZY:
        return Standing.LAZY if _lasts(failed, cause) else Standing.NOTHING
    if effect is LoadEffect.GOES_ON and failed.failure.ends_process:
        return Standing.CERTAIN
    if effect is LoadEffect.GOES_ON:
        return Standing.GOES_ON if failed.needs_torch or _lasts(failed, cause) else Standing.NOTHING
    if effect is LoadEffect.IMPORT_FAILS or failed.way is LoadWay.WITH_PACKAGE:
        return Standing.SUSPECTED if _does_torch_help(failed, scene.loader) else Standing.CERTAIN
    return _stand_alone(failed, cause, scene)


def _may_be_mended(failed: FailedLoad) -> bool:
    """Statements of the package may bring what is missing, if it is there: they open libraries by path."""
    return bool(
        failed.preloads and failed.failure.holders and failed.failure.fault in {LoadFault.LIBRARY, LoadFault.SYMBOL}
    )


def _lasts(failed: FailedLoad, cause: Cause) -> bool:
    """Tell whether a library that is opened later fails then too: others may have brought what it lacks.

    onnxruntime opens libonnxruntime_providers_shared.so for its providers, JAX the libraries of the nvidia wheels.
    """
    if failed.failure.fault is LoadFault.LIBRARY:
        return not failed.failure.holders
    has_provider = failed.failure.fault is not LoadFault.SYMBOL or failed.failure.provider is not None
    return has_provider or cause in {Cause.OTHER_TORCH, Cause.OTHER_ABI, Cause.OVERRIDDEN}


def _does_torch_help(failed: FailedLoad, loader: Loader) -> bool:
    """Tell whether a library that is imported without torch finds what it lacks in a process that has torch."""
    names = {library.name for library in loader.torch_process}
    return not failed.after_torch and failed.failure.fault is LoadFault.LIBRARY and failed.failure.name in names


def _stand_alone(failed: FailedLoad, cause: Cause, scene: Scene) -> Standing:
    """Judge what nothing certainly imports: faults that no healthy environment has are faults all the same."""
    failure = failed.failure
    if cause is Cause.DAMAGED:
        is_broken = is_cut_off(failure.words) or scene.is_lfs_pointer(failure.file)
        return Standing.SUSPECTED if is_broken else Standing.NOTHING
    if not failed.needs_torch:
        return Standing.SUSPECTED if cause is Cause.OLD_SYSTEM else Standing.NOTHING
    if cause in {Cause.OTHER_TORCH, Cause.OTHER_ABI, Cause.OLD_SYSTEM, Cause.OVERRIDDEN}:
        return Standing.CERTAIN
    if cause is not Cause.CUDA_OR_TORCH or failure.holders:
        return Standing.NOTHING
    is_of_torch = failure.fault is LoadFault.LIBRARY and is_torch_library(failure.name)
    return Standing.CERTAIN if is_of_torch else Standing.SUSPECTED


def is_cut_off(words: str) -> bool:
    """Tell whether the loader says that a part of the file is missing: no file of another kind looks like that."""
    return words.endswith(("file too short", "cannot read file data", BUS_ERROR))
