import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.rules.ed213_feature_for_newer_gpu import feature_for_newer_gpu
from tests.builders import a_distribution, a_gpu


@pytest.mark.parametrize(
    ("distribution", "version", "capability", "features"),
    [
        ("triton", "3.2.0", "6.1", ["torch.compile"]),
        ("bitsandbytes", "0.45.5", "7.0", ["LLM.int8() (load_in_8bit)"]),
        ("transformer-engine", "2.1.0", "8.6", ["FP8 (fp8_autocast)"]),
        ("transformer-engine", "2.1.0", "7.5", ["FP8 (fp8_autocast)", "bfloat16"]),
    ],
)
def test_fires_for_each_feature_that_the_gpu_lacks(
    distribution: str, version: str, capability: str, features: list[str], kb: KnowledgeBase
) -> None:
    findings = feature_for_newer_gpu(
        distributions=(a_distribution(distribution, version),), gpus=(a_gpu(capability),), kb=kb
    )

    assert [finding.message.partition(" of ")[0] for finding in findings] == features


@pytest.mark.parametrize(
    ("distribution", "version", "capability"),
    [
        ("triton", "3.2.0", "7.0"),
        ("bitsandbytes", "0.45.5", "7.5"),
        ("transformer-engine", "2.1.0", "8.9"),
        ("flash-attn", "2.8.3", "7.5"),  # the whole package: ED212
    ],
)
def test_is_silent_when_the_features_work(distribution: str, version: str, capability: str, kb: KnowledgeBase) -> None:
    assert not feature_for_newer_gpu(
        distributions=(a_distribution(distribution, version),), gpus=(a_gpu(capability),), kb=kb
    )
