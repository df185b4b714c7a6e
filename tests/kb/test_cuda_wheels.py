"""What is installed for which CUDA."""

import pytest
from packaging.requirements import Requirement

from envdoctor.kb import KnowledgeBase


@pytest.mark.parametrize(
    ("distribution", "cuda", "cudnn", "requirement"),
    [
        ("onnxruntime-gpu", 12, 9, "onnxruntime-gpu>=1.19,<1.27"),
        ("cupy-cuda111", 12, 9, "cupy-cuda12x"),
        ("cupy-cuda12x", 13, 0, "cupy-cuda13x"),
    ],
)
def test_is_named_by_what_it_replaces(
    distribution: str, cuda: int, cudnn: int, requirement: str, kb: KnowledgeBase
) -> None:
    row = kb.cuda_wheel(distribution, cuda=cuda, cudnn=cudnn)

    assert row is not None
    assert Requirement(row.requirement) == Requirement(requirement)


@pytest.mark.parametrize(
    ("distribution", "cuda", "cudnn"), [("onnxruntime-gpu", 12, 8), ("cupy-cuda12x", 12, 9), ("spconv-cu113", 12, 9)]
)
def test_is_not_guessed(distribution: str, cuda: int, cudnn: int, kb: KnowledgeBase) -> None:
    assert kb.cuda_wheel(distribution, cuda=cuda, cudnn=cudnn) is None
