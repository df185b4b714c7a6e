"""Fixtures that many tests share."""

from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from envdoctor import kb as knowledge
from envdoctor.kb import KnowledgeBase

# Machines are noisy: how long an example takes is measured in benchmarks/, and fails no test.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

pytest_plugins = ["tests.fake_nvml.fixture", "tests.unprivileged"]


@pytest.fixture(scope="session")
def kb() -> KnowledgeBase:
    return knowledge.load()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the expected texts under fixtures/")


@dataclass(frozen=True)
class Golden:
    """Compares texts with files, or rewrites the files."""

    rewrites: bool

    def check(self, text: str, file: Path) -> None:
        if self.rewrites:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), "run `make golden` when the new text is right"


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(rewrites=request.config.getoption("--golden"))
