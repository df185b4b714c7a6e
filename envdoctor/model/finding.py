"""What envdoctor concludes: findings, outcomes, reports."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from envdoctor.model.facts import Facts, Gpu

if TYPE_CHECKING:
    from envdoctor.model.rule import Rule


class Severity(IntEnum):
    """How bad a finding is; ordered, so that `max` gives the worst.

    ERROR: the job will fail or compute wrong numbers, and the evidence proves it.
    WARNING: works by luck, slowly, or is only suspected. INFO: worth knowing.
    """

    INFO = 1
    WARNING = 2
    ERROR = 3


class Status(Enum):
    """How a rule ended; UNKNOWN and CRASHED are never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # not applicable here
    UNKNOWN = "unknown"  # should be told but could not
    CRASHED = "crashed"  # a bug of the rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that was read, and where it was read."""

    source: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do about a finding: commands are complete and can be pasted."""

    summary: str
    commands: tuple[str, ...] = ()
    needs_admin: bool = False  # only the owner of the host or cluster can do it


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, with its proof and the way out."""

    message: str  # one clause, lower case, no full stop, no advice
    evidence: tuple[Evidence, ...]  # never empty
    remedy: Remedy | None = None  # None when no way out is known
    gpus: tuple[int, ...] = ()  # `Gpu.index` of the cards it is about; () when it is about all or none


@dataclass(frozen=True, slots=True)
class Undecided:
    """A rule yields this for what it should judge but cannot, e.g. a library that could not be read."""

    reason: str
    gpus: tuple[int, ...] = ()  # `Gpu.index` of the cards that are left open; () when that is all of them


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A rule yields this when its facts are there but hold nothing to judge, e.g. no GPU: silence would be a pass."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one rule concluded about one machine."""

    rule: "Rule[...]"
    status: Status
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()  # why it was skipped, could not be told, or crashed
    undecided_gpus: tuple[int, ...] = ()  # `Gpu.index` of the cards that `reasons` leave open; () when that is all


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcomes of every rule, in order of code, and the facts that they were concluded from."""

    facts: Facts
    outcomes: tuple[Outcome, ...]

    def failed(self, *, at_least: Severity = Severity.INFO) -> Iterator[Outcome]:
        """Yield the outcomes with findings of severity *at_least* or worse, worst first."""
        failed = [o for o in self.outcomes if o.status is Status.FAILED and o.rule.severity >= at_least]
        yield from sorted(failed, key=lambda outcome: -outcome.rule.severity)

    def count(self, severity: Severity, gpu: Gpu | None = None) -> int:
        """Count the findings of one severity; with *gpu*, only those that concern that card."""
        return sum(
            gpu is None or not finding.gpus or gpu.index in finding.gpus
            for outcome in self.failed()
            if outcome.rule.severity is severity
            for finding in outcome.findings
        )

    def with_status(self, status: Status) -> tuple[Outcome, ...]:
        """Return the outcomes that ended in *status*."""
        return tuple(outcome for outcome in self.outcomes if outcome.status is status)

    def undecided(self, gpu: Gpu | None = None) -> tuple[Outcome, ...]:
        """Return the outcomes that leave something open: unknown, or failed with a part that could not be told.

        With *gpu*, only those that leave it open for that card.
        """
        open_ended = {Status.UNKNOWN, Status.FAILED}
        return tuple(
            outcome
            for outcome in self.outcomes
            if outcome.status in open_ended
            and outcome.reasons
            and (gpu is None or not outcome.undecided_gpus or gpu.index in outcome.undecided_gpus)
        )
