from dataclasses import replace

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed212_package_for_newer_gpu import package_for_newer_gpu
from tests.builders import a_distribution, a_gpu


@pytest.mark.parametrize(
    ("distribution", "version", "capability"),
    [
        ("flash-attn", "2.6.0.post1", "7.0"),  # https://github.com/microsoft/MInference/issues/51: V100S
        ("flash-attn", "2.8.3", "7.5"),  # https://github.com/Dao-AILab/flash-attention/issues/762
        ("vllm", "0.11.0", "6.1"),
        ("vllm", "0.21.0", "7.0"),
        ("bitsandbytes", "0.50.2", "5.2"),
    ],
)
def test_fires_when_the_gpu_is_too_old(distribution: str, version: str, capability: str, kb: KnowledgeBase) -> None:
    [finding] = package_for_newer_gpu(
        distributions=(a_distribution(distribution, version),), gpus=(a_gpu(capability),), kb=kb
    )

    assert f"{distribution} {version} does not work on GPU 0" in finding.message


@pytest.mark.parametrize(
    ("distribution", "version", "capability"),
    [
        ("flash-attn", "2.8.3", "8.0"),
        ("flash-attn", "1.0.9", "7.5"),
        ("vllm", "0.11.0", "7.0"),
        ("bitsandbytes", "0.45.5", "5.2"),
        ("bitsandbytes", "0.50.2", "6.1"),  # a feature of it: ED213
        ("flash-attn", "unknown", "7.5"),
        ("numpy", "2.1.0", "3.5"),
    ],
)
def test_is_silent_when_the_package_works(distribution: str, version: str, capability: str, kb: KnowledgeBase) -> None:
    assert not package_for_newer_gpu(
        distributions=(a_distribution(distribution, version),), gpus=(a_gpu(capability),), kb=kb
    )


def test_names_what_to_use_instead_and_the_source(kb: KnowledgeBase) -> None:
    [finding] = package_for_newer_gpu(
        distributions=(a_distribution("flash-attn", "2.8.3"),), gpus=(a_gpu("7.5"),), kb=kb
    )

    assert finding.message.endswith("it needs compute capability 8.0")
    assert finding.evidence[1].source == "flash_attn-2.8.3.dist-info"
    assert "github.com/Dao-AILab/flash-attention" in finding.evidence[2].value
    assert finding.remedy is not None
    assert "sdpa" in finding.remedy.summary


def test_speaks_once_of_a_distribution_that_is_found_twice(kb: KnowledgeBase) -> None:
    first = a_distribution("flash-attn", "2.8.3")
    hidden = a_distribution("flash-attn", "2.6.3", shadowed_by=first.metadata_path)

    assert len(package_for_newer_gpu(distributions=(first, hidden, first), gpus=(a_gpu("7.5"),), kb=kb)) == 1


def test_is_silent_about_a_version_that_is_not_known(kb: KnowledgeBase) -> None:
    nameless = replace(a_distribution("flash-attn"), version=Unavailable("no METADATA"))

    assert not package_for_newer_gpu(distributions=(nameless,), gpus=(a_gpu("7.5"),), kb=kb)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(package_for_newer_gpu.check(distributions=(), gpus=(), kb=kb)) == [NotApplicable("no GPU is visible")]
