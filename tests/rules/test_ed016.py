"""ED016: conda and pip own different versions of one project."""

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed016_conda_overlaid_by_pip import conda_overlaid_by_pip
from tests.builders import a_contested_project, an_environment

CONDA = an_environment(kind="conda")


def test_names_both_and_lets_pip_own_it() -> None:
    """https://github.com/huggingface/transformers/issues/29022"""
    [finding] = conda_overlaid_by_pip(environment=CONDA, contested_projects=(a_contested_project(),))

    assert finding.message == "conda recorded `pytorch` 2.1.0, and pip installed torch 2.2.0 in its place"
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "conda remove --force --prefix /opt/env pytorch",
        "/opt/env/bin/python -m pip install --force-reinstall --no-deps torch==2.2.0",
    )


def test_shows_what_is_left_of_condas_package() -> None:
    files = tuple(f"lib/python3.10/site-packages/torch/lib/lib{number}.so" for number in range(7))
    project = a_contested_project(survivors=files, survivor_count=40)
    [finding] = conda_overlaid_by_pip(environment=CONDA, contested_projects=(project,))

    left = [one.value for one in finding.evidence if one.source == "left of conda's package"]
    assert left == [*files[:5], "35 more"]


def test_is_silent_without_a_contest() -> None:
    assert not conda_overlaid_by_pip(environment=CONDA, contested_projects=())


def test_is_not_asked_outside_of_conda() -> None:
    [conclusion] = conda_overlaid_by_pip.check(environment=an_environment(), contested_projects=())

    assert isinstance(conclusion, NotApplicable)
