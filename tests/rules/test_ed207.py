from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import MetadataKind, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed207_cpu_only_torch import cpu_only_torch
from tests.builders import a_distribution, a_driver, a_gpu, a_named_gpu, a_torch, an_environment, variables


@pytest.mark.parametrize("version", ["2.13.0+cpu", "1.9.0"])  # conda's builds have no local version
def test_fires_when_a_gpu_is_here(version: str, kb: KnowledgeBase) -> None:
    [finding] = cpu_only_torch(torch=a_torch(version), gpus=(a_gpu(),), kb=kb)

    assert finding.message == f"torch {version} is a CPU build and cannot use GPU 0 (NVIDIA GeForce RTX 4090)"
    assert finding.evidence[0].value == f"{version}, cuda = None"


def test_fires_once_for_all_named_cards(kb: KnowledgeBase) -> None:
    gpus = (a_named_gpu("8.9"), a_named_gpu("8.6", index=1, name="NVIDIA RTX A6000", source="--gpu a6000"))
    [finding] = cpu_only_torch(torch=a_torch("2.13.0+cpu"), gpus=gpus, environment=an_environment(), kb=kb)

    assert finding.gpus == (0, 1)
    assert finding.message.endswith("cannot use NVIDIA GeForce RTX 4090 and NVIDIA RTX A6000")
    assert finding.remedy is not None
    assert finding.remedy.commands[0].endswith(
        "-m pip install torch==2.13.0+cu130 --index-url https://download.pytorch.org/whl/cu130"
    )


def test_names_gpus_of_one_model_once(kb: KnowledgeBase) -> None:
    gpus = tuple(a_gpu(index=index) for index in range(8))
    [finding] = cpu_only_torch(torch=a_torch("2.13.0+cpu"), gpus=gpus, kb=kb)

    assert finding.message.endswith("cannot use GPUs 0-7 (NVIDIA GeForce RTX 4090)")
    assert [one.value for one in finding.evidence] == ["2.13.0+cpu, cuda = None", "NVIDIA GeForce RTX 4090"]


@pytest.mark.parametrize("version", ["2.6.0+cu124", "2.6.0+rocm6.2"])
def test_is_silent_about_other_builds(version: str, kb: KnowledgeBase) -> None:
    [conclusion] = cpu_only_torch.check(torch=a_torch(version), gpus=(a_gpu(),), kb=kb)

    assert isinstance(conclusion, NotApplicable)


def test_is_silent_when_the_gpus_are_hidden_on_purpose(kb: KnowledgeBase) -> None:
    [conclusion] = cpu_only_torch.check(
        torch=a_torch("2.13.0+cpu"), gpus=(a_gpu(),), variables=variables(CUDA_VISIBLE_DEVICES=""), kb=kb
    )

    assert conclusion == NotApplicable("no GPU is visible")


def test_names_what_conda_installed(kb: KnowledgeBase) -> None:
    # https://github.com/pytorch/pytorch/issues/69202 and 32369
    distributions = (
        a_distribution("pytorch", "1.9.0", build="py3.8_cpu_0", metadata_kind=MetadataKind.CONDA_META),
        a_distribution("cpuonly", "2.0", build="0", metadata_kind=MetadataKind.CONDA_META),
        a_distribution("pytorch-mutex", "1.0", build="cpu", metadata_kind=MetadataKind.CONDA_META),
        a_distribution("torch", "1.9.0", installer="conda", build="py3.8_cpu_0"),
    )
    [finding] = cpu_only_torch(
        torch=a_torch("1.9.0"),
        gpus=(a_gpu("8.6"),),
        environment=an_environment(python_version=(3, 8, 18)),
        distributions=distributions,
        kb=kb,
    )

    assert [one.value for one in finding.evidence if one.source == "conda-meta"] == [
        "pytorch 1.9.0 py3.8_cpu_0",
        "cpuonly 2.0 0, which makes conda choose CPU builds",
        "pytorch-mutex 1.0 cpu, which makes conda choose CPU builds",
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands[0] == "conda remove --prefix /opt/env cpuonly pytorch pytorch-mutex"
    assert "torch==1.9.0+cu111" in finding.remedy.commands[1]


def test_offers_a_build_for_the_driver(kb: KnowledgeBase) -> None:
    [finding] = cpu_only_torch(torch=a_torch("2.13.0+cpu"), gpus=(a_gpu(),), driver=a_driver("550.54.15"), kb=kb)

    assert finding.remedy is not None
    assert "torch==2.13.0+cu126" in finding.remedy.commands[0]


def test_fires_without_remedy_when_no_capability_is_known(kb: KnowledgeBase) -> None:
    gpu = replace(a_gpu(), compute_capability=Unavailable("not told"))
    [finding] = cpu_only_torch(torch=a_torch("2.13.0+cpu"), gpus=(gpu,), kb=kb)

    assert finding.remedy is None
