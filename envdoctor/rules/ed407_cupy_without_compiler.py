"""CuPy does not find the compiler that it builds its kernels with."""

from packaging.version import Version

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import pip_install, pip_uninstall
from envdoctor.model.facts import CupyBuild, Environment, Gpu, TorchBuild, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._load_remedies import lengthen_library_path

# The wheels of NVIDIA that bring a file of that name; there are none for CUDA before 11.7.
_WHEELS = {
    "libnvrtc.so.11.2": "nvidia-cuda-nvrtc-cu11",
    "libnvrtc.so.12": "nvidia-cuda-nvrtc-cu12",
    "libnvrtc.so.13": "'nvidia-cuda-nvrtc==13.*'",
}
_FIRST_TO_LOOK_THERE = Version("14")
_FIRST_FOR = ("cupy-cuda12x", "cupy-cuda13x")  # that release has no build for CUDA 11
_OLDEST_PYTHON = (3, 10)  # of that release


@rule("ED407", Severity.WARNING, "CuPy does not find NVRTC of its CUDA version")
def cupy_without_compiler(
    cupy: CupyBuild,
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
    environment: Environment | None = None,
    torch: TorchBuild | None = None,
) -> Conclusions:
    """
    ## What it means
    CuPy compiles its kernels when they are first used, with NVRTC, NVIDIA's compiler for that, of the CUDA major that
    its wheel is named after: cupy-cuda12x with `libnvrtc.so.12`. Its wheels bring none. Without it the import succeeds,
    and the first operation on an array fails with `CuPy failed to load libnvrtc.so.12`.

    ## How envdoctor knows
    It looks for the file where the dynamic loader would: LD_LIBRARY_PATH, the loader's cache, the default folders,
    conda's `lib`; and where CuPy 14 looks besides: the wheels of NVIDIA in the environment, CUDA_PATH and CUDA_HOME.
    CuPy before 14 finds those only once torch, or somebody else, has loaded them.

    ## Why it happens
    The wheel was chosen by the CUDA version that nvidia-smi shows, which is that of the driver; or the CUDA toolkit of
    the machine, or the torch beside it, is of another major.

    ## How to fix it
    Install the wheel of CuPy for the CUDA major that is there, or NVIDIA's NVRTC of that major into the environment,
    and let CuPy before 14 find it through LD_LIBRARY_PATH. To link `libnvrtc.so.12` to a file of another major
    replaces the message by a crash.

    ## When to ignore it
    When the job sets LD_LIBRARY_PATH, or loads a module of the cluster that does.
    """
    if not find_visible_gpus(gpus, variables).gpus:
        yield NotApplicable("no GPU is visible")
        return
    if cupy.findable:
        return
    what = f"{cupy.distribution} {cupy.version}"
    evidence = Evidence(source=cupy.distribution, value=f"opens {cupy.nvrtc} by name")
    if cupy.hidden:
        folder = cupy.hidden[0].rpartition("/")[0]
        yield Finding(
            message=f"{what} does not look where {cupy.nvrtc} lies, and finds it only after `import torch`",
            evidence=(evidence, *(Evidence(source="file", value=path) for path in cupy.hidden)),
            remedy=Remedy(
                summary="install CuPy 14 or newer, which looks there, or name the folder",
                commands=(lengthen_library_path(folder),),
            ),
        )
        return
    yield Finding(
        message=f"{what} finds no {cupy.nvrtc}: its kernels cannot be compiled",
        evidence=(evidence, Evidence(source="loader's path, wheels of NVIDIA", value=f"no {cupy.nvrtc}")),
        remedy=_follow_torch(cupy, torch, environment, kb) or _bring_compiler(cupy, environment),
    )


def _follow_torch(
    cupy: CupyBuild, torch: TorchBuild | None, environment: Environment | None, kb: KnowledgeBase
) -> Remedy | None:
    """Take the CuPy for the CUDA that torch brings; None when it is that."""
    cuda = torch.build_cuda_version if torch else None
    row = kb.cuda_wheel(cupy.distribution, cuda=cuda.major, cudnn=0) if cuda else None
    if row is None:
        return None
    return Remedy(
        summary=f"install the CuPy for CUDA {cuda}, which torch brings: {row.requirement}",
        commands=(
            *pip_uninstall(environment, cupy.distribution),
            f"{pip_install(environment)} {row.requirement}",
        ),
    )


def _bring_compiler(cupy: CupyBuild, environment: Environment | None) -> Remedy:
    wheel = _WHEELS.get(cupy.nvrtc)
    if wheel is None:
        return Remedy(summary="install the CuPy for the CUDA that is there: cupy-cuda11x serves 11.2 and later")
    summary = f"install the CuPy for the CUDA major that is there, or {cupy.nvrtc}"
    if _looks_there(cupy.version):
        return Remedy(summary=summary, commands=(f"{pip_install(environment)} {wheel}",))
    python = environment.python_version if environment else None
    if cupy.distribution in _FIRST_FOR and isinstance(python, tuple) and python >= _OLDEST_PYTHON:
        return Remedy(
            summary=f"{summary} with CuPy {_FIRST_TO_LOOK_THERE}, which finds it in NVIDIA's wheel",
            commands=(f"{pip_install(environment)} '{cupy.distribution}>={_FIRST_TO_LOOK_THERE}' {wheel}",),
        )
    return Remedy(
        summary=f"{summary}, and put its folder, nvidia/cuda_nvrtc/lib, on LD_LIBRARY_PATH",
        commands=(f"{pip_install(environment)} {wheel}",),
    )


def _looks_there(version: str) -> bool:
    try:
        return Version(version) >= _FIRST_TO_LOOK_THERE
    except ValueError:  # also of numbers that are too long for Python
        return False
