"""Each case of fixtures/cases through the whole engine, word for word."""

import pytest

from envdoctor import api
from envdoctor.render import RenderOptions
from envdoctor.render.text import render
from tests.cases import CASES, Case
from tests.conftest import Golden

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.slug)


@each_case
def test_the_report_is_as_expected(case: Case, golden: Golden) -> None:
    text = render(api.judge(case.facts), RenderOptions())
    # How many rules there are is no part of a case.
    lines = (line for line in text.splitlines(keepends=True) if not line.startswith("rules: "))
    golden.check("".join(lines), case.folder / "expected.txt")


@each_case
def test_the_origin_is_told(case: Case) -> None:
    assert (case.folder / "ORIGIN.md").read_text("utf-8").strip()
