"""ED001: a torch that is not whole, or not the only one."""

from envdoctor.rules.ed001_doubtful_torch import doubtful_torch
from tests.builders import a_torch


def test_fires_with_all_that_is_odd() -> None:
    problems = ("`torch/__init__.py` is missing", "a second torch lies in `/home/me/.local`")
    [finding] = doubtful_torch(torch=a_torch("2.8.0+cu128", problems=problems))

    assert tuple(evidence.value for evidence in finding.evidence) == problems


def test_is_silent_about_a_torch_that_is_whole() -> None:
    assert not doubtful_torch(torch=a_torch("2.8.0+cu128"))
