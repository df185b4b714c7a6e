"""ED123: more MIG instances than a process can use."""

from dataclasses import replace

import pytest

from envdoctor.model.facts import Gpu, MigInstance, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed123_several_mig_instances import several_mig_instances
from tests.builders import a_gpu, a_gpu_health, a_named_gpu, variables

SLICES = tuple(
    MigInstance(uuid=f"MIG-{number}7384736-a75d-5afc-978f-d2f1294409fd", name="3g.40gb", total_memory=40 << 30)
    for number in range(2)
)


def an_a100(*instances: MigInstance, index: int = 0) -> Gpu:
    health = a_gpu_health(mig_enabled=bool(instances), mig_instances=instances)
    return a_gpu("8.0", index=index, name="NVIDIA A100-SXM4-80GB", uuid=f"GPU-{index}", health=health)


@pytest.mark.parametrize(
    ("gpus", "environment"),
    [
        # pytorch/pytorch#130181: two A100 with 3g.40gb instances, the variable not set
        ((an_a100(SLICES[0]), an_a100(SLICES[1], index=1)), {}),
        ((an_a100(*SLICES),), {}),
        ((an_a100(*SLICES),), {"CUDA_VISIBLE_DEVICES": "0"}),
        ((an_a100(*SLICES),), {"CUDA_VISIBLE_DEVICES": f"{SLICES[0].uuid},{SLICES[1].uuid}"}),
        ((an_a100(SLICES[0]), an_a100(index=1)), {}),  # a whole GPU beside an instance is not visible
    ],
)
def test_fires_when_more_than_one_is_visible(gpus: tuple[Gpu, ...], environment: dict[str, str]) -> None:
    [finding] = several_mig_instances(gpus=gpus, variables=variables(**environment))

    assert finding.remedy is not None
    assert finding.remedy.commands == (f"export CUDA_VISIBLE_DEVICES={SLICES[0].uuid}",)


def test_fires_with_a_way_to_the_uuid_where_nvml_told_none() -> None:
    instances = tuple(replace(instance, uuid="") for instance in SLICES)
    [finding] = several_mig_instances(gpus=(an_a100(*instances),))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("nvidia-smi -L",)


@pytest.mark.parametrize(
    ("gpus", "environment"),
    [
        ((an_a100(SLICES[0]),), {}),
        ((an_a100(*SLICES),), {"CUDA_VISIBLE_DEVICES": SLICES[1].uuid}),  # vllm-project/vllm#6582
        ((an_a100(SLICES[0]), an_a100(index=1)), {"CUDA_VISIBLE_DEVICES": "0"}),
    ],
)
def test_is_silent_when_one_is_visible(gpus: tuple[Gpu, ...], environment: dict[str, str]) -> None:
    assert not list(several_mig_instances.check(gpus=gpus, variables=variables(**environment)))


UNLISTED = a_gpu("8.0", health=a_gpu_health(mig_enabled=True, mig_instances=Unavailable("no permission")))


@pytest.mark.parametrize("gpus", [(), (a_gpu(),), (a_gpu(), a_gpu(index=1)), (a_named_gpu(),), (UNLISTED,)])
def test_has_nothing_to_judge_without_instances(gpus: tuple[Gpu, ...]) -> None:
    [conclusion] = several_mig_instances.check(gpus=gpus)

    assert isinstance(conclusion, NotApplicable)


def test_a_card_that_is_not_here_beside_one_that_is_does_not_count() -> None:
    """`collect` writes no such facts; people can."""
    assert not several_mig_instances(gpus=(an_a100(SLICES[0]), a_named_gpu(index=1)))
