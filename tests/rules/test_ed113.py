"""ED113: different GPUs whose order is CUDA's guess."""

from dataclasses import replace

import pytest

from envdoctor.model.facts import Gpu
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed113_ambiguous_device_order import ambiguous_device_order
from tests.builders import a_gpu, a_named_gpu, variables

RTX_3090 = a_gpu("8.6", name="NVIDIA GeForce RTX 3090", uuid="GPU-30")
RTX_4090 = a_gpu("8.9", index=1, uuid="GPU-40")
MIXED = (RTX_3090, RTX_4090)


@pytest.mark.parametrize(
    "environment",
    [
        {},  # gpuopenanalytics/pynvml#28: NVML's number is not CUDA's
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "0,1"},
        {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
    ],
)
def test_fires_when_a_number_may_mean_another_card(environment: dict[str, str]) -> None:
    [finding] = ambiguous_device_order(gpus=MIXED, variables=variables(**environment))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)


@pytest.mark.parametrize(
    "environment",
    [
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": "GPU-40"},
        {"CUDA_VISIBLE_DEVICES": "GPU-40,GPU-30"},
        {"CUDA_VISIBLE_DEVICES": ""},
    ],
)
def test_is_silent_when_the_order_is_certain(environment: dict[str, str]) -> None:
    assert not ambiguous_device_order(gpus=MIXED, variables=variables(**environment))


LOST = a_gpu(index=2, name="unknown GPU", uuid="")


@pytest.mark.parametrize("gpus", [(RTX_4090,), (RTX_4090, replace(RTX_4090, index=0)), (RTX_4090, LOST)])
def test_is_silent_among_equals(gpus: tuple[Gpu, ...]) -> None:
    assert not ambiguous_device_order(gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="0"))


def test_has_nothing_to_judge_for_cards_that_are_not_here() -> None:
    gpus = (a_named_gpu("8.9"), a_named_gpu("8.6", index=1, name="NVIDIA RTX A6000"))
    [conclusion] = ambiguous_device_order.check(gpus=gpus, variables=())

    assert isinstance(conclusion, NotApplicable)
