"""ED011: a package in the current folder is also installed."""

import pytest

from envdoctor.model.installation import ShadowedModule
from envdoctor.rules.ed011_namesake_in_current_folder import namesake_in_current_folder
from tests.builders import SITE_PACKAGES, a_shadowed_module

DATASETS = a_shadowed_module(
    "datasets",
    origin="current folder",
    taken="/home/user/project/datasets",
    hidden=f"{SITE_PACKAGES}/datasets",
    hidden_origin="site-packages",
)


def test_fires_at_a_package_that_is_installed_as_well() -> None:
    [finding] = namesake_in_current_folder(shadowed_modules=(DATASETS,))

    assert finding.message == "the current folder has `datasets`, which is also installed"
    assert finding.evidence[0].source == "/home/user/project/datasets"


@pytest.mark.parametrize(
    "module",
    [
        a_shadowed_module("torch", origin="current folder", hidden_origin="site-packages", lost=("torch._C",)),
        a_shadowed_module("random", origin="current folder"),
        a_shadowed_module("random", origin="PYTHONPATH", hidden_origin="site-packages"),
    ],
    ids=["a part is lost", "standard library", "PYTHONPATH"],
)
def test_is_silent_about_what_other_rules_tell(module: ShadowedModule) -> None:
    assert not namesake_in_current_folder(shadowed_modules=(module,))
