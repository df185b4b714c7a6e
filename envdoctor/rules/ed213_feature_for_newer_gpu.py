"""A feature of an installed package works on newer GPUs only."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Distribution, Gpu, Variable
from envdoctor.model.finding import Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._devices import Devices, judge_devices
from envdoctor.rules._needs import conclude, find_unmet_needs


@rule("ED213", Severity.INFO, "a feature of a package needs a newer GPU")
def feature_for_newer_gpu(
    distributions: tuple[Distribution, ...],
    gpus: tuple[Gpu, ...],
    kb: KnowledgeBase,
    variables: tuple[Variable, ...] = (),
) -> Conclusions:
    """
    ## What it means
    The package works on this GPU, but not all of it: `torch.compile` needs 7.0, 8-bit matrices of bitsandbytes 7.5,
    bfloat16 8.0, FP8 8.9.

    ## How envdoctor knows
    A table of packages, their features and the oldest compute capability that their makers name for them.

    ## Why it happens
    The feature uses instructions that came with a later generation of GPUs.

    ## How to fix it
    Leave the feature off, or use a newer card.

    ## When to ignore it
    When the job does not use the feature.
    """

    def judge(devices: Devices) -> Conclusions:
        for one, need in find_unmet_needs(distributions, devices.compute_capability, kb):
            if need.feature:
                yield conclude(one, need, devices)

    yield from judge_devices(gpus, variables, judge)
