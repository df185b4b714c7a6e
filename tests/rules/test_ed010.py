"""ED010: the current folder hides what it lacks a part of."""

import pytest

from envdoctor.model.installation import ShadowedModule
from envdoctor.rules.ed010_module_hidden_by_current_folder import module_hidden_by_current_folder
from tests.builders import SITE_PACKAGES, a_shadowed_module

CHECKOUT = a_shadowed_module(
    "torch",
    origin="current folder",
    taken="/home/user/pytorch/torch",
    hidden=f"{SITE_PACKAGES}/torch",
    hidden_origin="site-packages",
    lost=("torch._C",),
)


def test_fires_in_the_checkout_of_an_installed_project() -> None:
    """https://github.com/pytorch/pytorch/issues/4622"""
    [finding] = module_hidden_by_current_folder(shadowed_modules=(CHECKOUT,))

    assert finding.message == "the current folder hides `torch` from a job that is started in it"
    assert "with torch._C" in finding.evidence[0].value


def test_fires_at_a_namesake_of_the_standard_library() -> None:
    assert module_hidden_by_current_folder(shadowed_modules=(a_shadowed_module(origin="current folder"),))


@pytest.mark.parametrize(
    "module",
    [
        a_shadowed_module("datasets", origin="current folder", hidden_origin="site-packages"),
        a_shadowed_module("random", origin="PYTHONPATH"),
    ],
    ids=["nothing is lost", "PYTHONPATH"],
)
def test_is_silent_otherwise(module: ShadowedModule) -> None:
    assert not module_hidden_by_current_folder(shadowed_modules=(module,))
