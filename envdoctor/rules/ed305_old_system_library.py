"""A compiled extension needs a newer glibc or libstdc++ than a process of the environment has."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED305", Severity.ERROR, "an extension needs a newer C or C++ library")
def old_system_library(
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
    The loader says ``libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by ...)`` or
    ``libc.so.6: version `GLIBC_2.32' not found``: the library was built with a newer compiler, or for a newer system.

    ## How envdoctor knows
    Every library lists the versions of symbols that it needs, and libstdc++ and glibc list those that they have. It
    compares the lists of the files that the loader would take.

    ## Why it happens
    The system's g++ compiled the extension, and it is loaded into a conda environment that brings an older libstdc++;
    or the other way round. So it is with what torch compiles when a job first asks for it, and keeps in
    `~/.cache/torch_extensions`: compiling that anew changes nothing. Or the wheel was built for newer systems: those of
    flash-attn 2.8 need glibc 2.32, Debian 11 has 2.31.

    ## How to fix it
    libstdc++: renew that of the conda environment, or build with conda's own compiler. For one job, preload the newer
    one. Deleting or linking files of libstdc++ inside the environment breaks what is built with it. glibc cannot be
    replaced: use a newer system or image, build the extension here, or take an older release.

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
    yield from conclude_cause(Cause.OLD_SYSTEM, scene)
