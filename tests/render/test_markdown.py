"""Markdown that stays intact whatever foreign files contain."""

import pytest

from envdoctor.model.facts import Facts
from envdoctor.model.finding import Evidence, Finding, Report
from envdoctor.render import RenderOptions
from envdoctor.render.markdown import render
from tests.builders import an_environment
from tests.render.reports import NO_DEVICE_CODE, failed


def rendered(message: str, value: str) -> str:
    finding = Finding(message=message, evidence=(Evidence(source="file", value=value),))
    return render(Report(facts=Facts(), outcomes=(failed(NO_DEVICE_CODE, finding),)), RenderOptions())


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("a <b> is *c* | d", r"a \<b\> is \*c\* \| d"),
        ("`lib_x*.so` has _no_ code for sm_86", r"`lib_x*.so` has \_no\_ code for sm_86"),
        ("two\nlines", "two lines"),
        ("a \x1b[31m red", r"a \\x1b\[31m red"),
    ],
)
def test_a_message_is_escaped_outside_its_code_spans(message: str, expected: str) -> None:
    assert f"ED901: {expected}\n" in rendered(message, "v")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "`plain`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("``", "``` `` ```"),
        ("two\nlines", "`two lines`"),
        ("\x1b[31m", r"`\x1b[31m`"),
    ],
)
def test_a_code_span_survives_backticks(value: str, expected: str) -> None:
    assert f"- file: {expected}\n" in rendered("m", value)


@pytest.mark.parametrize(
    ("prefix", "cell"), [("/a|b", r"/a\|b"), ("/a `b|c` d", r"/a `b\|c` d"), (r"/a\|b", r"/a\\\|b")]
)
def test_a_path_with_a_bar_does_not_break_the_table(prefix: str, cell: str) -> None:
    report = Report(facts=Facts(environment=an_environment(prefix=prefix)), outcomes=())

    assert f"| environment | {cell} (venv" in render(report, RenderOptions())
