"""Any report can be written in every format, whatever foreign files put into it."""

import json
from importlib import resources

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor import render
from envdoctor.model.finding import Report
from envdoctor.render import RenderOptions
from tests.property.strategies import reports

SCHEMA = json.loads(resources.files("envdoctor.render").joinpath("report.schema.json").read_text(encoding="utf-8"))

options = st.builds(RenderOptions, color=st.booleans(), width=st.integers(1, 200), verbose=st.booleans())
generated = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@generated
@given(reports, options)
def test_no_format_fails(report: Report, how: RenderOptions) -> None:
    for name in render.formats():
        assert render.get(name).render(report, how).endswith("\n")


@generated
@given(reports)
def test_text_can_be_written_anywhere(report: Report) -> None:
    text = render.get("text").render(report, RenderOptions())

    assert text.encode("utf-8").decode() == text
    assert all(char.isprintable() or char == "\n" for char in text)


@generated
@given(reports)
def test_json_fits_its_schema(report: Report) -> None:
    jsonschema.validate(json.loads(render.get("json").render(report, RenderOptions())), SCHEMA)
