"""The dynamic loader refuses an extension for another reason than those that have rules of their own."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity, Undecided
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import short_path
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED313", Severity.ERROR, "an extension cannot be loaded")
def unloadable_extension(
    loader: Loader,
    kb: KnowledgeBase,
    torch: TorchBuild | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    host: Host | None = None,
) -> Conclusions:
    """
    ## What it means
    Importing the package fails: the dynamic loader refuses one of its libraries. None of the causes fits that envdoctor
    can tell apart: another torch, CUDA, Python or C++ library, a missing or damaged file.

    ## How envdoctor knows
    It does from files what the dynamic loader does, up to the last symbol, and quotes what that will say.

    ## Why it happens
    Often a build that ended early: a source file was left out, and the functions in it are missing. Or two packages
    bring one library in different versions.

    ## How to fix it
    Install the package anew, or build it anew without a left-over `build/` folder.

    ## When to ignore it
    When the job does not use the package.
    """
    scene = Scene(
        loader=loader,
        kb=kb,
        torch=torch,
        environment=environment,
        distributions=distributions,
        device_code=device_code,
        host=host,
    )
    for unreadable in loader.unreadable:
        library, _, reason = unreadable.partition(": ")
        yield Undecided(f"whether {short_path(library)} loads: {reason}")
    yield from conclude_cause(Cause.OTHER, scene)
