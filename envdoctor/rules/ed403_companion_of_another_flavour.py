"""A package that is made for torch of another flavour: CPU, another major version of CUDA, ROCm."""

from collections.abc import Iterator
from dataclasses import replace

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.companion_choice import CompanionWish, companion_remedy
from envdoctor.model.facts import Companion, CudaCheck, Distribution, Environment, TorchBuild, TorchFlavour
from envdoctor.model.finding import Evidence, Finding, Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_verdicts import find_refused
from envdoctor.rules._pairing import has_other_major, refuses

_TORCHVISION = "torchvision"


@rule("ED403", Severity.WARNING, "a package is made for torch of another flavour")
def companion_of_another_flavour(
    torch: TorchBuild,
    companions: tuple[Companion, ...],
    kb: KnowledgeBase,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    loader: Loader | None = None,
) -> Conclusions:
    """
    ## What it means
    The package fits the release of torch and not its build. A CPU build beside torch with CUDA has no operators for
    the GPU (`Could not run 'torchvision::nms' with arguments from the 'CUDA' backend`). A build with CUDA beside a CPU
    torch, or beside torch of another CUDA version, looks for libraries that are not there or loads a second CUDA
    runtime into the process. xformers only warns (`xFormers was built for: PyTorch 2.1.2+cu121 (you have 2.1.2+cpu)`)
    and then runs slowly or out of memory: code that imports it should be taken for broken.

    ## How envdoctor knows
    The local version of the package (`+cpu`, `+cu118`, `+pt21cu118`), what xformers notes about its build, the build
    string of conda, or, for torchvision without any of these from the default index, the CUDA version that its release
    is built with there; and `torch/version.py`. Versions of one CUDA major go together, unless the code of the package
    refuses that. Where the dynamic loader refuses a library of the package, or the package refuses its import, the
    findings about those take the place of this one.

    ## Why it happens
    Torch and the package came from different indexes. For pip 0.16.2+cpu is as good a 0.16.2 as any.

    ## How to fix it
    Install torch and its companions in one command from one index.

    ## When to ignore it
    When the job does not use the package on the GPU.
    """
    wish = CompanionWish(torch=torch, environment=environment, distributions=distributions)
    scene = Scene(loader=loader, kb=kb, torch=torch, distributions=distributions) if loader else None
    refused = find_refused(scene) if scene else frozenset()
    for each in sorted(_with_defaults(companions, wish, kb), key=lambda each: each.distribution):
        refuses_torch = loader is not None and loader.torch is None and each in companions and refuses(each, torch)
        is_told_elsewhere = refuses_torch or each.distribution in refused
        if _is_for_another(each, torch) and not is_told_elsewhere:
            yield Finding(
                message=f"{each.distribution} {each.version} is {_describe(each.flavour, each.cuda)} beside torch "
                f"{torch.version}, {_describe(torch.flavour, _cuda_of(torch))}",
                evidence=(
                    Evidence(source=each.source, value=f"{each.version}, {_describe(each.flavour, each.cuda)}"),
                    Evidence(source="torch/version.py", value=f"{torch.version}, cuda = {_cuda_of(torch) or None!r}"),
                ),
                remedy=companion_remedy(each.distribution, wish, kb),
            )


def _with_defaults(companions: tuple[Companion, ...], wish: CompanionWish, kb: KnowledgeBase) -> Iterator[Companion]:
    """Add what is known of the wheels of torchvision on the default index that carry no mark (up to 0.10).

    On other machines than x86_64 people build it themselves, under the name of the release.
    """
    is_usual = wish.environment is not None and wish.environment.platform == "linux-x86_64"
    for each in companions:
        installed = wish.find(each.distribution)
        is_plain = each.flavour is None and each.distribution == _TORCHVISION and is_usual
        if not is_plain or installed is None or installed.installer != "pip" or installed.version != each.version:
            yield each
            continue
        releases = (row for row in kb.torch_releases.values() if row.torchvision == each.version and row.default_cuda)
        for row in list(releases)[:1]:
            source = f"release of torchvision for torch {row.version} on the default index"
            yield replace(each, flavour=TorchFlavour.CUDA, cuda=str(row.default_cuda), source=source)


def _is_for_another(companion: Companion, torch: TorchBuild) -> bool:
    if companion.flavour is None or companion.flavour is not torch.flavour:
        return companion.flavour is not None
    if not companion.cuda or torch.build_cuda_version is None:
        return False
    cuda = _cuda_of(torch)
    return has_other_major(companion.cuda, cuda) or (companion.cuda_check is CudaCheck.MINOR and companion.cuda != cuda)


def _describe(flavour: TorchFlavour | None, cuda: str) -> str:
    return f"built for CUDA {cuda}" if cuda else f"a {flavour.value} build" if flavour else ""


def _cuda_of(torch: TorchBuild) -> str:
    return str(torch.build_cuda_version) if torch.build_cuda_version else ""
