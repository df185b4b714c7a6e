"""A file that wins through LD_LIBRARY_PATH or LD_PRELOAD works in place of that of the environment, by luck."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Distribution, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Severity
from envdoctor.model.loading import Loader, OverriddenLibrary
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._load_overrides import find_lucky
from envdoctor.rules._load_remedies import leave_out, shorten_library_path
from envdoctor.rules._load_scene import Scene

_SHOWN = 6


@rule("ED307", Severity.WARNING, "libraries of CUDA are taken from elsewhere")
def overridden_library(
    loader: Loader,
    kb: KnowledgeBase,
    torch: TorchBuild | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    The environment brings libraries of CUDA, and the loader takes others of the same name through LD_LIBRARY_PATH or
    LD_PRELOAD. They have all that is asked of them when they are loaded, so it works, for now: in another version than
    torch was built and tested with.

    ## How envdoctor knows
    It follows the search of the dynamic loader, and compares the files: their content differs, and so does their
    version, or it is not known.

    ## Why it happens
    LD_LIBRARY_PATH is searched before the folders that NVIDIA's libraries name themselves (RUNPATH). Images with CUDA,
    modules of clusters and old advice put `/usr/local/cuda/lib64` there.

    ## How to fix it
    Take the folder off LD_LIBRARY_PATH: torch brings what it needs.

    ## When to ignore it
    When you mean to use that version.
    """
    lucky = sorted(find_lucky(loader, torch), key=lambda library: library.taken.name)
    if not lucky:
        return
    scene = Scene(loader=loader, kb=kb, torch=torch, distributions=distributions)
    ways = enumerate_all(dict.fromkeys(library.taken.found_through for library in lucky))
    names = enumerate_all(f"`{library.taken.name}`" for library in lucky[:_SHOWN])
    more = f" and {len(lucky) - _SHOWN} more" if len(lucky) > _SHOWN else ""
    folders = tuple(library.taken.folder for library in lucky if library.taken.found_through == "LD_LIBRARY_PATH")
    yield Finding(
        message=f"{ways} brings other files for {names}{more} than the environment has",
        evidence=tuple(_describe(library) for library in lucky[:_SHOWN]),
        remedy=shorten_library_path(folders, scene) if folders else leave_out(lucky[0].taken, lucky[0].own, scene),
    )


def _describe(library: OverriddenLibrary) -> Evidence:
    versions = [version or "unknown version" for version in (library.taken_version, library.own_version)]
    return Evidence(source=library.taken.path, value=f"{versions[0]}, in place of {library.own} ({versions[1]})")
