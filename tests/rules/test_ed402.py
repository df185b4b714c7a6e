from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import CudaCheck
from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.rules.ed402_companion_refusing_cuda import companion_refusing_cuda
from tests.builders import a_companion, a_distribution, a_loader, a_torch, an_environment, an_extension_of_another_torch


def findings_with(name: str, version: str, check: CudaCheck, *, torch: str, kb: KnowledgeBase) -> list[Finding]:
    return companion_refusing_cuda(
        torch=a_torch(torch),
        companions=(a_companion(name, version, cuda_check=check),),
        loader=a_loader(),
        kb=kb,
        environment=an_environment(),
        distributions=(a_distribution("torch", torch), a_distribution(name, version.partition("+")[0])),
    )


def test_fires_when_torchvision_refuses_another_major(kb: KnowledgeBase) -> None:
    """https://github.com/deforum/deforum-stable-diffusion/issues/348."""
    [finding] = findings_with("torchvision", "0.16.0+cu118", CudaCheck.MAJOR, torch="2.1.0+cu121", kb=kb)

    assert finding.message == (
        "`import torchvision` fails: torchvision 0.16.0+cu118 was built with CUDA 11.8, torch 2.1.0+cu121 with 12.1"
    )
    assert finding.evidence[2].value == (
        "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions: "
        "12.1 and 11.8"
    )
    assert finding.remedy is not None
    [command] = finding.remedy.commands
    assert command == (
        "/opt/env/bin/python -m pip install torch==2.1.0+cu121 torchvision==0.16.0+cu121 "
        "--index-url https://download.pytorch.org/whl/cu121"
    )


def test_fires_when_torchaudio_refuses_another_minor(kb: KnowledgeBase) -> None:
    """https://github.com/mli/autocut/issues/106."""
    [finding] = findings_with("torchaudio", "2.0.2+cu117", CudaCheck.MINOR, torch="2.0.1+cu118", kb=kb)

    assert finding.message.startswith("`import torchaudio` fails: torchaudio 2.0.2+cu117 was built with CUDA 11.7")
    assert "PyTorch and TorchAudio were compiled with different CUDA versions: 11.8" in finding.evidence[2].value


@pytest.mark.parametrize(
    ("version", "check", "torch"),
    [
        ("0.16.0+cu121", CudaCheck.MAJOR, "2.1.0+cu121"),
        ("0.16.0+cu121", CudaCheck.MAJOR, "2.1.0+cu124"),
        ("0.15.2+cu118", CudaCheck.MINOR, "2.0.1+cu118"),
        ("0.15.2+cu118", CudaCheck.NONE, "2.0.1+cu121"),
        ("0.16.0+cpu", CudaCheck.MAJOR, "2.1.0+cu121"),
        ("0.16.0+cu121", CudaCheck.MAJOR, "2.1.0+cpu"),
        ("0.8.2", CudaCheck.MINOR, "1.7.1+cu101"),  # it does not tell what it was built with
    ],
)
def test_is_silent_where_it_refuses_nothing(kb: KnowledgeBase, version: str, check: CudaCheck, torch: str) -> None:
    assert not findings_with("torchvision", version, check, torch=torch, kb=kb)


def test_is_silent_where_the_loader_refuses_it_first(kb: KnowledgeBase) -> None:
    companion = a_companion("torchvision", "0.16.0+cu118", cuda_check=CudaCheck.MAJOR)
    facts: dict[str, Any] = {"torch": a_torch("2.1.0+cu121"), "companions": (companion,), "kb": kb}

    assert companion_refusing_cuda(loader=a_loader(), **facts)
    assert not companion_refusing_cuda(loader=a_loader(an_extension_of_another_torch("torchvision")), **facts)


def test_has_nothing_to_judge_beside_a_torch_that_cannot_be_loaded(kb: KnowledgeBase) -> None:
    failure = an_extension_of_another_torch("torch").failure
    conclusions = companion_refusing_cuda.check(torch=a_torch(), companions=(), loader=a_loader(torch=failure), kb=kb)

    assert list(conclusions) == [NotApplicable("torch itself cannot be loaded")]
