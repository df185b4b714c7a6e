"""ED011: a package comes before an installed one of its name."""

from dataclasses import replace

import pytest

from envdoctor.model.installation import ShadowedModule
from envdoctor.rules.ed011_preceding_namesake import preceding_namesake
from tests.builders import SITE_PACKAGES, a_shadowed_module
from tests.rules.search_paths import pair

DATASETS = a_shadowed_module(
    "datasets",
    origin="current folder",
    taken="/home/user/project/datasets",
    hidden=f"{SITE_PACKAGES}/datasets",
    hidden_origin="site-packages",
)


def test_fires_at_a_package_that_is_installed_as_well() -> None:
    [finding] = preceding_namesake(shadowed_modules=(DATASETS,))

    assert finding.message == "`datasets` in the current folder comes before what is installed"
    assert finding.evidence[0].source == "/home/user/project/datasets"


def test_a_checkout_on_pythonpath_is_a_finding_of_its_own() -> None:
    checkout = replace(DATASETS, name="mmdet", origin="PYTHONPATH")
    _, finding = preceding_namesake(shadowed_modules=(DATASETS, checkout))

    assert finding.message == "`mmdet` on PYTHONPATH comes before what is installed"


def test_leaves_whole_distributions_to_the_rule_that_compares_versions() -> None:
    numpy = replace(DATASETS, name="numpy", origin="PYTHONPATH", hidden=f"{SITE_PACKAGES}/numpy")

    assert not preceding_namesake(
        shadowed_modules=(numpy,), distributions=pair("/shared/packages", "numpy", "1.19.5", "1.26.4")
    )


@pytest.mark.parametrize(
    "module",
    [
        a_shadowed_module("torch", origin="current folder", hidden_origin="site-packages", lost=("torch._C",)),
        a_shadowed_module("random", origin="current folder"),
    ],
    ids=["a part is lost", "standard library"],
)
def test_is_silent_about_what_other_rules_tell(module: ShadowedModule) -> None:
    assert not preceding_namesake(shadowed_modules=(module,))
