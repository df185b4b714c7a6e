"""An installed package works on newer GPUs only."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Distribution, Gpu, Variable
from envdoctor.model.finding import Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._needs import conclude, find_unmet_needs


@rule("ED212", Severity.WARNING, "a package needs a newer GPU")
def package_for_newer_gpu(
    distributions: tuple[Distribution, ...],
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
) -> Conclusions:
    """
    ## What it means
    The package uses instructions that this GPU does not have, so no build of it runs there. flash-attn 2 says
    `FlashAttention only supports Ampere GPUs or newer`.

    ## How envdoctor knows
    A table of packages and the oldest compute capability that their makers name, with the place where they do.

    ## Why it happens
    The package was written for newer GPUs, or ended its support for older ones.

    ## How to fix it
    Use another implementation (PyTorch's own attention instead of flash-attn), an older release, or a newer card.

    ## When to ignore it
    When the job does not use the package. Hugging Face models do not use flash-attn unless they are told to.
    """

    def judge(devices: Devices) -> Conclusions:
        for one, need in find_unmet_needs(distributions, devices.compute_capability, kb):
            if not need.feature:
                yield conclude(one, need, devices)

    yield from judge_devices(gpus, variables, judge)
