"""A library cannot be loaded, and nothing shows that a job imports it."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_standing
from envdoctor.rules._load_verdicts import Standing


@rule("ED314", Severity.WARNING, "a library cannot be loaded, but may not be used")
def unproven_load_failure(
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
    The dynamic loader would refuse a library of the environment. No statement was found that certainly imports it: it
    may be imported inside a function, or under a condition, or after something that brings what it lacks. Or it is one
    that torch compiled (`torch.utils.cpp_extension.load`) and keeps: a job that asks for it gets it as it is, unless
    its sources or flags have changed.

    ## How envdoctor knows
    It does from files what the dynamic loader does. It reports only what healthy environments do not have: parts of a
    file that are missing, a glibc or libstdc++ that is too old, a CUDA for an extension of torch that lies nowhere. Of
    torch's cache it asks for what was compiled with the headers of this very torch: ED215 is about the rest.

    ## Why it happens
    As with extensions whose import certainly fails.

    ## How to fix it
    As there: install the build that fits what is installed, or build it anew.

    ## When to ignore it
    When the job does not use the library.
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
    yield from conclude_standing(Standing.SUSPECTED, scene, "; nothing shows whether it is used")
