"""ED008: PYTHONPATH breaks the standard library."""

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed008_replaced_standard_library import replaced_standard_library
from tests.builders import a_shadowed_module, an_environment
from tests.rules.search_paths import searching

TORCH = "/opt/env/lib/python3.10/site-packages/torch"
ENVIRONMENT = searching((TORCH, "PYTHONPATH"))
RANDOM = a_shadowed_module("random", taken=f"{TORCH}/random.py", lacking="Random", asked_by="tempfile")


def test_fires_with_torch_itself_on_the_path() -> None:
    """https://github.com/pytorch/pytorch/issues/19943"""
    [finding] = replaced_standard_library(environment=ENVIRONMENT, shadowed_modules=(RANDOM,))

    assert finding.message == f"`import random` finds `{TORCH}/random.py`, which has no `Random`"
    assert finding.evidence[1].source == "tempfile of the standard library"
    assert finding.evidence[1].value == "from random import Random"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset PYTHONPATH",)


def test_is_silent_where_the_file_may_do() -> None:
    assert not replaced_standard_library(environment=ENVIRONMENT, shadowed_modules=(a_shadowed_module("random"),))


def test_a_file_in_the_current_folder_proves_nothing() -> None:
    module = a_shadowed_module("random", origin="current folder", lacking="Random", asked_by="tempfile")

    assert not replaced_standard_library(environment=ENVIRONMENT, shadowed_modules=(module,))


def test_is_not_asked_without_the_variable() -> None:
    [conclusion] = replaced_standard_library.check(environment=an_environment(), shadowed_modules=())

    assert isinstance(conclusion, NotApplicable)
