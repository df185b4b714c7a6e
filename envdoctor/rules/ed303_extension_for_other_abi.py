"""A compiled extension and torch disagree about what `std::string` is."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause


@rule("ED303", Severity.ERROR, "an extension was built for the other C++11 ABI")
def extension_for_other_abi(
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
    g++ has two versions of `std::string`, an old and a new "C++11 ABI" (binary interface). Names of functions that take
    one differ: they end in `Ss` in the old ABI, and contain `__cxx11` in the new one. The extension asks for one kind,
    the installed torch has the other: `undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs`.

    ## How envdoctor knows
    A symbol that the library needs is missing, and torch's libraries define the same function for the other ABI.

    ## Why it happens
    Wheels of torch had the old ABI up to 2.5, and 2.6 with CUDA 11.8 and 12.4. Those of 2.6 with CUDA 12.6 and all of
    2.7 and later have the new one. NVIDIA's containers, conda-forge and builds from source have long had the new one.
    So the version alone does not tell: 2.6.0+cu124 and 2.6.0+cu126 differ. Wheels of flash-attn exist for both, as
    `cxx11abiTRUE` and `cxx11abiFALSE`.

    ## How to fix it
    Take the wheel for the ABI that torch has, or build the extension anew beside this torch.

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
    yield from conclude_cause(Cause.OTHER_ABI, scene)
