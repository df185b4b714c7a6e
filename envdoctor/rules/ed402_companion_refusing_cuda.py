"""torchvision or torchaudio ends its own import because torch was built with another CUDA version."""

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.companion_choice import CompanionWish, companion_remedy
from envdoctor.model.facts import Companion, CudaCheck, Distribution, Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Severity
from envdoctor.model.loading import Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_verdicts import find_refused
from envdoctor.rules._pairing import refuses

_NAMES = {"torchaudio": "TorchAudio"}  # in its own words


@rule("ED402", Severity.ERROR, "torchvision or torchaudio refuses the CUDA version of torch")
def companion_refusing_cuda(
    torch: TorchBuild,
    companions: tuple[Companion, ...],
    loader: Loader,
    kb: KnowledgeBase,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    `import torchvision` or `import torchaudio` ends with `RuntimeError: Detected that PyTorch and torchvision were
    compiled with different CUDA major versions`, although every library can be loaded: the package compares the CUDA
    version that it was built with to that of torch.

    ## How envdoctor knows
    It reads both versions (`torch/version.py`, `torchvision/version.py`), and in the installed code what that refuses:
    torchvision before 0.16 and torchaudio any other version, later torchvision another major version. It speaks only
    where the dynamic loader takes the libraries of the package: without them, the comparison is left out.

    ## Why it happens
    torch and its companion came from different indexes: one from the default index, the other from that of a CUDA
    version. A version such as 0.16.2 is satisfied by every build of it, so pip sees nothing wrong.

    ## How to fix it
    Install torch and its companions in one command from one index. To update the driver or to install a CUDA toolkit
    changes nothing: both bring their own CUDA.

    ## When to ignore it
    When nothing imports the package. transformers imports torchvision where it is installed.
    """
    if loader.torch is not None:
        yield NotApplicable("torch itself cannot be loaded")
        return
    wish = CompanionWish(torch=torch, environment=environment, distributions=distributions)
    refused = find_refused(Scene(loader=loader, kb=kb, torch=torch, distributions=distributions))
    for each in sorted(companions, key=lambda each: each.distribution):
        if refuses(each, torch) and each.distribution not in refused:
            yield Finding(
                message=f"`import {each.distribution}` fails: {each.distribution} {each.version} was built with CUDA "
                f"{each.cuda}, torch {torch.version} with {torch.build_cuda_version}",
                evidence=(
                    Evidence(source=each.source, value=each.version),
                    Evidence(source="torch/version.py", value=f"cuda = {str(torch.build_cuda_version)!r}"),
                    Evidence(source=f"`_check_cuda_version` of {each.distribution}", value=_words(each, torch)),
                ),
                remedy=companion_remedy(each.distribution, wish, kb),
            )


def _words(companion: Companion, torch: TorchBuild) -> str:
    """Return what the user sees."""
    name = _NAMES.get(companion.distribution, companion.distribution)
    what = "major versions" if companion.cuda_check is CudaCheck.MAJOR else "versions"
    return (
        f"RuntimeError: Detected that PyTorch and {name} were compiled with different CUDA {what}: "
        f"{torch.build_cuda_version} and {companion.cuda}"
    )
