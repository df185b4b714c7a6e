"""A library that a package needs is cut off, no library at all, or gone."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED312", Severity.ERROR, "a library file is damaged")
def damaged_library(
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
    The import fails with `file too short`, `invalid ELF header`, `wrong ELF class` or
    `cannot open shared object file`, although the package is installed. Where the end of the file is missing, Python
    itself ends, with `Bus error` and nothing else.

    ## How envdoctor knows
    It reads the head and the tables of the file, as the dynamic loader does.

    ## Why it happens
    The disk was full, or a download or copy was cut off. The repository was cloned without Git LFS, which leaves small
    text files in place of large ones. An archive was made for another machine. Or a clean-up deleted libraries that a
    wheel had brought along.

    ## How to fix it
    Install the package anew, without pip's cache. Fetch what Git LFS keeps with `git lfs pull`.

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
    yield from conclude_cause(Cause.DAMAGED, scene)
