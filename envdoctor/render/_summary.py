"""What every format for people says about a report as a whole: what was examined, and the verdicts."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from envdoctor.model.facts import Absence, Driver, Environment, Facts, Gpu, TorchBuild, TorchFlavour, Unavailable
from envdoctor.model.finding import Report, Severity, Status
from envdoctor.model.loading import Loader

T = TypeVar("T")

_CODE_FACTS = frozenset({"torch", "device_code"})
_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_NAMED_APART = 3


class Verdict(Enum):
    """What the report means for one card."""

    ERRORS = "errors"
    WARNINGS = "warnings"
    UNDECIDED = "undecided"  # nothing bad was found, but a rule could not tell
    NOT_JUDGED = "not judged"  # nothing bad was found, but there was no code to judge
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardVerdict:
    """The verdict on one card, and what it counts."""

    gpu: Gpu
    verdict: Verdict
    errors: int
    warnings: int
    infos: int
    text: str


# --- verdicts ----------------------------------------------------------------------------------------------------


def verdicts(report: Report) -> tuple[CardVerdict, ...]:
    """Return one verdict per card, in order; none when no card is known."""
    gpus = report.facts.gpus
    return () if isinstance(gpus, Unavailable) else tuple(_verdict(report, gpu) for gpu in gpus)


def _verdict(report: Report, gpu: Gpu) -> CardVerdict:
    errors, warnings, infos = (report.count(severity, gpu) for severity in _NOUNS)
    if errors:
        verdict = Verdict.ERRORS
    elif warnings:
        verdict = Verdict.WARNINGS
    elif _open_rules(report, gpu):
        verdict = Verdict.UNDECIDED
    else:
        verdict = Verdict.NOT_JUDGED if why_nothing_was_judged(report) else Verdict.OK
    text = _describe(report, gpu, verdict, dict(zip(_NOUNS.values(), (errors, warnings, infos), strict=True)))
    return CardVerdict(gpu=gpu, verdict=verdict, errors=errors, warnings=warnings, infos=infos, text=text)


def _describe(report: Report, gpu: Gpu, verdict: Verdict, counts: dict[str, int]) -> str:
    parts = [count(number, noun) for noun, number in counts.items() if number]
    if verdict is Verdict.OK:
        parts.insert(0, "ok")
    elif verdict in {Verdict.UNDECIDED, Verdict.NOT_JUDGED}:
        parts.insert(0, "nothing bad found")
    if open_rules := _open_rules(report, gpu):
        parts.append(f"{count(open_rules, 'rule')} undecided")
    if why_nothing_was_judged(report):
        parts.append("GPU code not judged")
    elif isinstance(report.facts.torch, Unavailable):
        parts.append("torch not judged")
    if verdict is Verdict.OK and isinstance(report.facts.driver, Unavailable):
        parts.append("driver not judged")
    return ", ".join(parts)


def _open_rules(report: Report, gpu: Gpu) -> int:
    return len(report.undecided(gpu)) + len(report.with_status(Status.CRASHED))


def why_nothing_was_judged(report: Report) -> str:
    """Say why no GPU code was judged; empty when some was."""
    if (torch := _why_torch_has_none(report.facts)) and not _has_device_code(report.facts):
        return f"{torch}; no library with GPU code was found"
    judged = any(
        outcome.status in {Status.PASSED, Status.FAILED, Status.UNKNOWN}
        and "gpus" in outcome.rule.needs
        and _CODE_FACTS.intersection(outcome.rule.needs)
        for outcome in report.outcomes
    )
    return "" if judged else "no rule about GPU code could run"


def _why_torch_has_none(facts: Facts) -> str:
    if isinstance(facts.torch, Unavailable):
        return facts.torch.reason
    return "torch is built for CPU" if facts.torch.flavour is TorchFlavour.CPU else ""


def _has_device_code(facts: Facts) -> bool:
    return not isinstance(facts.device_code, Unavailable) and bool(facts.device_code)


def summary(report: Report) -> str:
    """Return the one line for people in a hurry."""
    cards = verdicts(report)
    if not cards:
        found = ", ".join(count(report.count(severity), noun) for severity, noun in _NOUNS.items())
        return f"{found}; no GPU was judged: {_why_no_gpu(report.facts)}"
    by_text: dict[str, list[Gpu]] = {}
    for card in cards:
        by_text.setdefault(card.text, []).append(card.gpu)
    return "; ".join(f"{text} on {_name(gpus, cards)}" for text, gpus in by_text.items())


def _why_no_gpu(facts: Facts) -> str:
    return facts.gpus.reason if isinstance(facts.gpus, Unavailable) else "NVML sees none; name a card with --gpu"


def _name(gpus: list[Gpu], cards: tuple[CardVerdict, ...]) -> str:
    if len(gpus) > _NAMED_APART:
        return f"{len(gpus)} GPUs"
    names = [card.gpu.name for card in cards]
    return ", ".join(gpu.name if names.count(gpu.name) == 1 else f"GPU {gpu.index}" for gpu in gpus)


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rule_counts(report: Report) -> str:
    """Say how many rules ended in which way."""
    counts = {status: len(report.with_status(status)) for status in Status}
    return ", ".join(f"{number} {status.value}" for status, number in counts.items() if number)


# --- what was examined -------------------------------------------------------------------------------------------


def header(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield label and text of every line about what was examined."""
    environment, torch, driver = facts.environment, facts.torch, facts.driver
    if isinstance(environment, Unavailable):
        yield "environment", _absent(environment)
    else:
        yield from _environment_lines(environment)
    yield "torch", _absent(torch) if isinstance(torch, Unavailable) else _torch(torch)
    if not isinstance(facts.loader, Unavailable) and facts.loader.asked:
        yield "loader", _loader(facts.loader)
    yield "driver", _absent(driver) if isinstance(driver, Unavailable) else _driver(driver)
    if isinstance(facts.gpus, Unavailable) or not facts.gpus:
        yield "GPUs", _absent(facts.gpus) if isinstance(facts.gpus, Unavailable) else "NVML sees none"
        return
    for gpu in facts.gpus:
        yield f"GPU {gpu.index}", f"{gpu.name}, compute capability {_known(gpu.compute_capability)} ({gpu.source})"


def _environment_lines(environment: Environment) -> Iterator[tuple[str, str]]:
    yield "environment", f"{environment.prefix} ({environment.kind}, from {environment.chosen_because})"
    version = environment.python_version
    number = _absent(version) if isinstance(version, Unavailable) else ".".join(map(str, version))
    interpreter = environment.interpreter
    yield "python", f"{number}, {_absent(interpreter) if isinstance(interpreter, Unavailable) else interpreter}"
    for note in environment.notes:
        yield "note", note


def _torch(torch: TorchBuild) -> str:
    cuda = f" {torch.build_cuda_version or 'of unknown version'}" if torch.flavour is TorchFlavour.CUDA else ""
    owner = f", installed by {torch.installed_by}" if torch.installed_by else ""
    return f"{torch.version}, built for {torch.flavour.value}{cuda}{owner}"


def _loader(loader: Loader) -> str:
    """Count; what of the rest matters is said by the rules: many packages have libraries for other surroundings."""
    loaded = f"{loader.asked - len(loader.failed)} of {loader.asked}"
    if loader.torch:
        return f"torch does not load; {loaded} libraries that need no torch do"
    return f"{loaded} libraries load"


def _driver(driver: Driver) -> str:
    cuda = "" if isinstance(driver.cuda_version, Unavailable) else f", CUDA up to {driver.cuda_version}"
    return f"{_known(driver.release_version)}{cuda} ({driver.source})"


def _known(fact: T | Unavailable) -> str:
    return _absent(fact) if isinstance(fact, Unavailable) else str(fact)


def _absent(fact: Unavailable) -> str:
    return fact.reason if fact.absence is Absence.NOT_APPLICABLE else f"unknown: {fact.reason}"
