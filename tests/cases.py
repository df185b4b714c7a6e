"""The cases of fixtures/cases: facts of real and rebuilt machines, and what envdoctor says about them."""

from dataclasses import dataclass
from pathlib import Path

from envdoctor.model.facts import Facts
from envdoctor.model.facts_file import load_facts

FOLDER = Path(__file__).parents[1] / "fixtures" / "cases"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One folder: ``facts.json``, ``expected.txt`` and ``ORIGIN.md``."""

    folder: Path
    facts: Facts

    @property
    def slug(self) -> str:
        return self.folder.name


def _load() -> tuple[Case, ...]:
    files = sorted(FOLDER.glob("*/facts.json"))
    return tuple(Case(folder=file.parent, facts=load_facts(file.read_text("utf-8"))) for file in files)


CASES = _load()
