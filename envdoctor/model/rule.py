"""The rule decorator: the one place where something is passed by name."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Generic, ParamSpec

from envdoctor.model.facts import Facts
from envdoctor.model.finding import Finding, NotApplicable, Severity, Undecided

P = ParamSpec("P")

FACT_NAMES = frozenset(fact.name for fact in fields(Facts))
KNOWLEDGE_BASE = "kb"

Conclusions = Iterator[Finding | Undecided | NotApplicable]


@dataclass(frozen=True, slots=True)
class Rule(Generic[P]):
    """A check together with everything that envdoctor says about it."""

    code: str
    severity: Severity
    title: str
    check: Callable[P, Conclusions] = field(repr=False)
    needs: tuple[str, ...]  # facts without which the rule does not run
    uses: tuple[str, ...]  # facts that it takes when they are there (parameters with a default)
    asks_kb: bool

    @property
    def name(self) -> str:
        """The bad thing, readable after "ignore": ``no-kernel-image``."""
        return self.check.__name__.replace("_", "-")

    @property
    def explanation(self) -> str:
        """The docstring: Markdown with five fixed headings; empty under ``python -OO``."""
        return inspect.getdoc(self.check) or ""

    @property
    def page(self) -> str:
        """Everything about the rule, in Markdown."""
        stripped = (
            "This Python strips docstrings (`-OO`), and the explanation is one: run envdoctor without that switch."
        )
        head = f"# {self.code} {self.name}\n\n*{self.severity.name.lower()}*: {self.title}\n"
        return f"{head}\n{self.explanation or stripped}\n"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[Finding]:
        """Run the check on given facts and return its findings; what it left undecided is dropped."""
        return [conclusion for conclusion in self.check(*args, **kwargs) if isinstance(conclusion, Finding)]


def rule(code: str, severity: Severity, title: str) -> Callable[[Callable[P, Conclusions]], Rule[P]]:
    """Turn a generator of findings into a `Rule`.

    The parameters of the generator name the facts that it needs, and `kb` the knowledge base. The engine skips the
    rule when a fact that it needs is `Unavailable`; a parameter with a default is optional.

    Raises:
        TypeError: a parameter names no fact.

    """

    def decorate(check: Callable[P, Conclusions]) -> Rule[P]:
        parameters = inspect.signature(check).parameters
        asked = {name: parameter for name, parameter in parameters.items() if name != KNOWLEDGE_BASE}
        if unknown := asked.keys() - FACT_NAMES:
            raise TypeError(f"{code} asks for unknown facts: {', '.join(sorted(unknown))}")
        needs = tuple(name for name, parameter in asked.items() if parameter.default is parameter.empty)
        uses = tuple(name for name in asked if name not in needs)
        return Rule(code, severity, title, check, needs, uses, KNOWLEDGE_BASE in parameters)

    return decorate
