"""The machine format against the schema that ships with it."""

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import jsonschema
import pytest

from envdoctor.model.facts import Unavailable
from envdoctor.model.finding import Report
from envdoctor.render import RenderOptions
from envdoctor.render.json import SCHEMA, render
from tests.builders import a_driver, a_gpu, a_torch, an_environment, healthy_facts
from tests.render.reports import REPORTS

DAMAGED = Unavailable("damaged")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        resources.files("envdoctor.render").joinpath("report.schema.json").read_text()
    )
    return document


def test_the_schema_is_one(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_schema_is_that_of_the_reports(schema: dict[str, Any]) -> None:
    assert schema["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_fits_the_schema(name: str, schema: dict[str, Any]) -> None:
    jsonschema.validate(json.loads(render(REPORTS[name], RenderOptions())), schema)


def test_facts_that_are_partly_missing_fit_the_schema(schema: dict[str, Any]) -> None:
    facts = healthy_facts(
        environment=an_environment(interpreter=DAMAGED, python_version=DAMAGED),
        torch=a_torch("2.2.0+cpu"),
        driver=a_driver(release_version=DAMAGED, cuda_version=DAMAGED),
        gpus=(a_gpu(compute_capability=DAMAGED),),
    )
    document = json.loads(render(Report(facts=facts, outcomes=()), RenderOptions()))

    jsonschema.validate(document, schema)
    assert document["torch"]["build_cuda_version"] is None
    assert document["gpus"][0]["compute_capability"]["unavailable"] == "damaged"


def test_an_arch_list_that_could_not_be_read_fits_the_schema(schema: dict[str, Any]) -> None:
    facts = healthy_facts(torch=replace(a_torch(), arch_list=DAMAGED))
    document = json.loads(render(Report(facts=facts, outcomes=()), RenderOptions()))

    jsonschema.validate(document, schema)
    assert document["torch"]["arch_list"] == {"unavailable": "damaged", "absence": "unreadable"}


def test_a_finding_carries_its_code_its_proof_and_its_cards() -> None:
    [error, *_] = json.loads(render(REPORTS["everything"], RenderOptions()))["findings"]

    assert (error["code"], error["severity"], error["gpus"]) == ("ED901", "error", [0])
    assert error["evidence"][0] == {"source": "--gpu 4090", "value": "compute capability 8.9"}
    assert error["remedy"]["commands"][0].startswith("/opt/env/bin/python -m pip install")


def test_every_card_has_its_verdict() -> None:
    cards = json.loads(render(REPORTS["everything"], RenderOptions()))["gpus"]

    assert [(card["verdict"], card["errors"], card["warnings"]) for card in cards] == [
        ("errors", 1, 1),
        ("warnings", 0, 1),
    ]
