"""The stable machine format: described by ``report.schema.json`` beside this module."""

import json
from typing import Any

from envdoctor import __version__
from envdoctor.model.codec import to_json
from envdoctor.model.facts import Driver, Environment, Facts, TorchBuild, Unavailable
from envdoctor.model.finding import Finding, Outcome, Report, Severity, Status
from envdoctor.model.rule import Rule
from envdoctor.render import RenderOptions
from envdoctor.render._summary import CardVerdict, summary, verdicts

# Grows when a field changes its meaning or goes; new fields leave it as it is.
SCHEMA = 1


def render(report: Report, _options: RenderOptions) -> str:
    """Write *report* as one JSON document."""
    document = {
        "schema": SCHEMA,
        "envdoctor": __version__,
        **_examined(report.facts),
        "gpus": _gpus(report),
        "summary": summary(report),
        "counts": _counts(report),
        "findings": [_finding(outcome.rule, item) for outcome in report.failed() for item in outcome.findings],
        "outcomes": [_outcome(outcome) for outcome in report.outcomes],
    }
    return json.dumps(document, indent=2) + "\n"


# --- what was examined -------------------------------------------------------------------------------------------


def _examined(facts: Facts) -> dict[str, Any]:
    return {
        "environment": _environment(facts.environment),
        "torch": _torch(facts.torch),
        "driver": _driver(facts.driver),
    }


def _environment(environment: Environment | Unavailable) -> dict[str, Any]:
    if isinstance(environment, Unavailable):
        return _absent(environment)
    version = environment.python_version
    return {
        "interpreter": to_json(environment.interpreter),
        "prefix": environment.prefix,
        "kind": environment.kind,
        "chosen_because": environment.chosen_because,
        "python_version": _absent(version) if isinstance(version, Unavailable) else ".".join(map(str, version)),
        "notes": list(environment.notes),
    }


def _torch(torch: TorchBuild | Unavailable) -> dict[str, Any]:
    if isinstance(torch, Unavailable):
        return _absent(torch)
    archs = torch.arch_list
    return {
        "version": torch.version,
        "flavour": torch.flavour.value,
        "build_cuda_version": _text(torch.build_cuda_version),
        "arch_list": _absent(archs) if isinstance(archs, Unavailable) else [str(arch) for arch in archs],
        "root": torch.root,
        "problems": [*torch.problems, *torch.library_problems],
    }


def _driver(driver: Driver | Unavailable) -> dict[str, Any]:
    if isinstance(driver, Unavailable):
        return _absent(driver)
    return {
        "release_version": _text(driver.release_version),
        "cuda_version": _text(driver.cuda_version),
        "source": driver.source,
    }


def _gpus(report: Report) -> list[dict[str, Any]] | dict[str, Any]:
    if isinstance(report.facts.gpus, Unavailable):
        return _absent(report.facts.gpus)
    return [_card(card) for card in verdicts(report)]


def _card(card: CardVerdict) -> dict[str, Any]:
    return {
        "index": card.gpu.index,
        "name": card.gpu.name,
        "compute_capability": _text(card.gpu.compute_capability),
        "uuid": card.gpu.uuid,
        "source": card.gpu.source,
        "verdict": card.verdict.value,
        "errors": card.errors,
        "warnings": card.warnings,
        "infos": card.infos,
    }


def _text(value: object) -> Any:
    if isinstance(value, Unavailable):
        return _absent(value)
    return None if value is None else str(value)


def _absent(fact: Unavailable) -> dict[str, Any]:
    absent: dict[str, Any] = to_json(fact)
    return absent


# --- what was concluded ------------------------------------------------------------------------------------------


def _counts(report: Report) -> dict[str, int]:
    """Count what decides the exit code."""
    findings = {severity.name.lower(): report.count(severity) for severity in reversed(Severity)}
    return findings | {status.value: len(report.with_status(status)) for status in Status}


def _finding(rule: Rule[...], finding: Finding) -> dict[str, Any]:
    return {**_name(rule), **to_json(finding)}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {**_name(outcome.rule), "status": outcome.status.value, "reasons": list(outcome.reasons)}


def _name(rule: Rule[...]) -> dict[str, str]:
    return {"code": rule.code, "name": rule.name, "severity": rule.severity.name.lower(), "title": rule.title}
