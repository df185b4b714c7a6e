"""A package swallows the failure of its extension and goes on without."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model import bitsandbytes
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild, Variable
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude
from envdoctor.rules._load_verdicts import BrokenPackage, Standing, judge_packages


@rule("ED311", Severity.WARNING, "a package goes on without its extension")
def skipped_extension(
    loader: Loader,
    kb: KnowledgeBase,
    torch: TorchBuild | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    host: Host | None = None,
    variables: tuple[Variable, ...] = (),
) -> Conclusions:
    """
    ## What it means
    The package cannot load its compiled part, says so in a warning or not at all, and goes on. What needs that part
    fails later, or is slower: xformers without its kernels runs out of memory, detectron2 has no deformable
    convolution. bitsandbytes before 0.43 goes on only where there is no GPU.

    ## How envdoctor knows
    The dynamic loader would refuse the library, and the code of the package passes over that.

    ## Why it happens
    As with extensions that end the import: built for another torch, CUDA, C++ library or Python. Or bitsandbytes is
    told by `BNB_CUDA_VERSION` to load the library for a CUDA that is not there.

    ## How to fix it
    Install the build that belongs to the installed torch, or build it anew beside it.

    ## When to ignore it
    When the job does not use what is missing.
    """
    scene = Scene(
        loader=loader,
        kb=kb,
        torch=torch,
        environment=environment,
        distributions=distributions,
        device_code=device_code,
        host=host,
        variables=variables,
    )
    for package in judge_packages(scene):
        if package.standing is Standing.GOES_ON:
            yield conclude(package, scene, _say_what_follows(package, scene))


def _say_what_follows(package: BrokenPackage, scene: Scene) -> str:
    name = package.told[0].failed.distribution
    if name == bitsandbytes.DISTRIBUTION and bitsandbytes.ends_import(scene.version_of(name)):
        return "; importing it fails where there is a GPU"
    return "; it goes on without its compiled part"
