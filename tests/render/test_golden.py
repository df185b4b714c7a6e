"""Every format against the files in fixtures/reports."""

from pathlib import Path

import pytest

from envdoctor import render
from envdoctor.render import RenderOptions
from tests.conftest import Golden
from tests.render.reports import REPORTS

FOLDER = Path(__file__).parents[2] / "fixtures" / "reports"
SUFFIXES = {"json": "json", "markdown": "md", "text": "txt"}


@pytest.mark.parametrize("format_", render.formats())
@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_rendered_as_expected(name: str, format_: str, golden: Golden) -> None:
    text = render.get(format_).render(REPORTS[name], RenderOptions())

    golden.check(text, FOLDER / f"{name}.{SUFFIXES[format_]}")


@pytest.mark.parametrize("format_", ["markdown", "text"])
def test_a_verbose_report_shows_passed_and_skipped_rules(format_: str, golden: Golden) -> None:
    text = render.get(format_).render(REPORTS["everything"], RenderOptions(verbose=True))

    golden.check(text, FOLDER / f"everything-verbose.{SUFFIXES[format_]}")


def test_a_coloured_report_differs_in_escape_sequences_only(golden: Golden) -> None:
    text = render.get("text").render(REPORTS["everything"], RenderOptions(color=True))

    golden.check(text, FOLDER / "everything-colour.txt")
