"""ED022: `python` starts another environment than the active one."""

import pytest

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed022_another_python_on_path import another_python_on_path
from tests.builders import an_environment


@pytest.mark.parametrize(
    ("kind", "because", "command"),
    [
        ("venv", "VIRTUAL_ENV", "source /opt/env/bin/activate"),
        ("conda", "CONDA_PREFIX", "conda activate /opt/env"),
    ],
)
def test_names_both_and_activates_the_environment(kind: str, because: str, command: str) -> None:
    [finding] = another_python_on_path(
        environment=an_environment(kind=kind, chosen_because=because, other_python="/opt/hostedtoolcache/bin/python")
    )

    assert finding.message == "`python` starts `/opt/hostedtoolcache/bin/python`, and not the active environment"
    assert finding.remedy is not None
    assert finding.remedy.commands == (command,)


def test_is_silent_where_path_leads_to_the_environment() -> None:
    assert not another_python_on_path(environment=an_environment())


def test_is_not_asked_about_an_environment_that_is_not_active() -> None:
    [conclusion] = another_python_on_path.check(environment=an_environment(chosen_because="--prefix"))

    assert isinstance(conclusion, NotApplicable)
