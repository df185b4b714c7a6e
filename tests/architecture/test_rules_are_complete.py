"""Every rule has its file, its explanation, its test, its case and its page; no code is named that has no rule."""

import inspect
import re
import shlex
import types
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import pytest

from envdoctor import api, kb
from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Facts, Unavailable
from envdoctor.model.finding import Finding, Status
from envdoctor.model.rule import KNOWLEDGE_BASE, Rule
from envdoctor.rules import load_rules
from tests.cases import CASES, Case

ROOT = Path(__file__).parents[2]
RULES = load_rules()
HEADINGS = ["What it means", "How envdoctor knows", "Why it happens", "How to fix it", "When to ignore it"]

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.slug)


def test_there_are_rules_of_both_families() -> None:
    assert {rule.code[:3] for rule in RULES} >= {"ED1", "ED2"}


def test_no_two_rules_share_a_code_or_a_name() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


@each_rule
def test_the_file_is_named_after_code_and_name(rule: Rule[...]) -> None:
    assert rule.check.__module__ == f"envdoctor.rules.{rule.code.lower()}_{rule.check.__name__}"


@each_rule
def test_the_title_is_a_clause(rule: Rule[...]) -> None:
    assert not rule.title.endswith(".")
    assert "\n" not in rule.title


@each_rule
def test_the_explanation_has_the_five_headings(rule: Rule[...]) -> None:
    sections = re.split(r"^## (.*)$", rule.explanation, flags=re.MULTILINE)

    assert sections[0].strip() == ""
    assert sections[1::2] == HEADINGS
    assert all(text.strip() for text in sections[2::2])


@each_rule
def test_each_parameter_has_the_type_of_the_fact(rule: Rule[...]) -> None:
    facts = get_type_hints(Facts)
    for name, parameter in inspect.signature(rule.check, eval_str=True).parameters.items():
        expected = KnowledgeBase if name == KNOWLEDGE_BASE else _without(Unavailable, facts[name])
        is_optional = parameter.default is None
        assert (_without(types.NoneType, parameter.annotation) if is_optional else parameter.annotation) == expected


def _without(kind: type, annotation: object) -> object:
    if get_origin(annotation) not in {Union, types.UnionType}:
        return annotation
    [other] = [arg for arg in get_args(annotation) if arg is not kind]
    return other


@each_rule
def test_it_has_a_test(rule: Rule[...]) -> None:
    assert (ROOT / "tests" / "rules" / f"test_{rule.code.lower()}.py").is_file()


@each_rule
def test_it_has_a_case_that_triggers_it(rule: Rule[...]) -> None:
    assert [case.slug for case in CASES if rule.code in _failed(case)] != []


def _failed(case: Case) -> set[str]:
    return {outcome.rule.code for outcome in api.judge(case.facts).with_status(Status.FAILED)}


# --- what the rules say, on every case ---------------------------------------------------------------------------


def _findings(case: Case) -> list[Finding]:
    return [finding for outcome in api.judge(case.facts).failed() for finding in outcome.findings]


@each_case
def test_no_rule_crashes(case: Case) -> None:
    assert api.judge(case.facts).with_status(Status.CRASHED) == ()


@each_case
def test_every_finding_has_proof_and_a_clause(case: Case) -> None:
    for finding in _findings(case):
        assert finding.evidence
        assert finding.message
        assert not finding.message.endswith(".")
        assert "\n" not in finding.message


@each_case
def test_every_command_can_be_pasted(case: Case) -> None:
    for finding in _findings(case):
        for command in finding.remedy.commands if finding.remedy else ():
            assert shlex.split(command)
            assert not re.search(r"<[\w -]+>|\.\.\.|…", command)
            assert "\n" not in command


@each_case
def test_every_finding_names_cards_that_are_there(case: Case) -> None:
    indices = set() if isinstance(case.facts.gpus, Unavailable) else {gpu.index for gpu in case.facts.gpus}

    assert all(set(finding.gpus) <= indices for finding in _findings(case))


# --- codes anywhere else -----------------------------------------------------------------------------------------


def _texts() -> list[Path]:
    folders = ("envdoctor", "docs", "tests", "tools", "benchmarks", "fixtures/cases")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    texts = [file for file in files if file.suffix in {".py", ".md", ".toml", ".txt", ".sh", ".yml"}]
    return [*texts, *ROOT.glob("*.md"), ROOT / "Makefile"]


def test_no_code_is_named_that_has_no_rule() -> None:
    known = {rule.code for rule in RULES}
    named = {code: file for file in _texts() for code in re.findall(r"\bED[0-8]\d\d\b", file.read_text("utf-8"))}

    assert {code: str(file.relative_to(ROOT)) for code, file in named.items() if code not in known} == {}


def test_every_symptom_names_rules_that_exist() -> None:
    assert {code for symptom in kb.load().symptoms() for code in symptom.codes} <= {rule.code for rule in RULES}
