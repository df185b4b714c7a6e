"""A library that is opened by name when it is first used cannot be loaded."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_standing
from envdoctor.rules._load_verdicts import Standing


@rule("ED310", Severity.WARNING, "a library that is opened when first used cannot be loaded")
def unloadable_lazy_library(
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
    Importing the package succeeds. Later, when it opens the library, that fails: with an error, or silently, and
    onnxruntime and JAX then compute on the CPU.

    ## How envdoctor knows
    The dynamic loader would refuse the library, and what is missing lies nowhere in the environment or the system. It
    is a warning and no error because nothing shows that the job gets there.

    ## Why it happens
    The wheel is for another major version of CUDA: onnxruntime-gpu up to 1.18 on the default index is for CUDA 11, from
    1.19 on for CUDA 12. CuPy comes for one major version each (`cupy-cuda12x`) and takes the libraries from the system.

    ## How to fix it
    Install the build for the CUDA that is there. Do not put the libraries of another CUDA on LD_LIBRARY_PATH.

    ## When to ignore it
    When the job does not use that part of the package.
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
    yield from conclude_standing(Standing.LAZY, scene, "; it fails when first used")
