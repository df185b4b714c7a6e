"""A compiled package needs a library that wheels expect of the system, and it is not installed."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED308", Severity.ERROR, "a package needs a library of the system that is not there")
def missing_system_library(
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
    Importing the package fails with `libGL.so.1: cannot open shared object file: No such file or directory` or the
    like.

    ## How envdoctor knows
    The library, or one that it needs, names the missing one, and none of the folders that the dynamic loader searches
    has it.

    ## Why it happens
    Wheels bring most libraries along, but take those of the desktop, of sound or of MPI from the system. Images such as
    `python:3.10-slim` have none of them.

    ## How to fix it
    Install the package of the system; `libgl1-mesa-glx`, which many Dockerfiles name, is gone since Ubuntu 23.10 and
    Debian 13: it is `libgl1`. opencv-python has a twin that needs no desktop, `opencv-python-headless`; take the other
    one out first, both lie in the folder `cv2`.

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
    yield from conclude_cause(Cause.SYSTEM_LIBRARY, scene)
