"""Fixtures that many tests share."""

import pytest

from envdoctor import kb as knowledge
from envdoctor.kb import KnowledgeBase


@pytest.fixture(scope="session")
def kb() -> KnowledgeBase:
    return knowledge.load()
