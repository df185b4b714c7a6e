"""A compiled extension asks for symbols that the installed torch does not have."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED302", Severity.ERROR, "an extension was built for another torch")
def extension_for_another_torch(
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
    A compiled extension uses the C++ interface of torch, and was built for another release of it. The loader refuses
    it: `undefined symbol: _ZN2at4_ops5zeros4call...`. Some packages hide that: torchvision says `operator
    torchvision::nms does not exist`, xformers a warning.

    ## How envdoctor knows
    It looks up every symbol that the library needs in the libraries of a process that has imported torch, as the
    dynamic loader does, from the files alone. Symbols of torch are missing there. Which torch has them is told by the
    metadata of the package, by the name of its wheel, and by the symbols themselves.

    ## Why it happens
    The C++ interface of torch changes with every minor release. torch was replaced by another install, the wheel was
    chosen for another torch, or pip took a wheel that it had built earlier from its cache.

    ## How to fix it
    Install the wheel for exactly this torch and CUDA. Or build it anew beside this torch: without build isolation,
    which would build it for the newest torch; without pip's cache; without a left-over `build/` folder.

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
    yield from conclude_cause(Cause.OTHER_TORCH, scene)
