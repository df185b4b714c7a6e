from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import TorchFlavour
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed208_torch_for_other_hardware import torch_for_other_hardware
from tests.builders import a_gpu, a_torch, variables


@pytest.mark.parametrize(
    ("flavour", "described"),
    [(TorchFlavour.ROCM, "AMD (ROCm)"), (TorchFlavour.XPU, "Intel (XPU)")],
)
def test_fires_beside_an_nvidia_gpu(flavour: TorchFlavour, described: str, kb: KnowledgeBase) -> None:
    torch = replace(a_torch("2.6.0+rocm6.2"), flavour=flavour)
    [finding] = torch_for_other_hardware(torch=torch, gpus=(a_gpu(),), kb=kb)

    assert finding.message == (
        f"torch 2.6.0+rocm6.2 is built for GPUs of {described} and cannot use GPU 0 (NVIDIA GeForce RTX 4090)"
    )
    assert finding.remedy is not None
    assert "torch==2.6.0+cu124" in finding.remedy.commands[0]


@pytest.mark.parametrize("version", ["2.6.0+cu124", "2.6.0+cpu"])
def test_is_silent_about_other_builds(version: str, kb: KnowledgeBase) -> None:
    [conclusion] = torch_for_other_hardware.check(torch=a_torch(version), gpus=(a_gpu(),), kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_is_silent_when_the_gpus_are_hidden_on_purpose(kb: KnowledgeBase) -> None:
    [conclusion] = torch_for_other_hardware.check(
        torch=a_torch("2.6.0+rocm6.2"), gpus=(a_gpu(),), variables=variables(CUDA_VISIBLE_DEVICES="-1"), kb=kb
    )

    assert conclusion == NotApplicable("no GPU is visible")
