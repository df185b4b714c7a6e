"""ED003: the user site wins over the environment."""

import pytest

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed003_overridden_by_user_site import overridden_by_user_site
from tests.builders import SITE_PACKAGES, an_environment
from tests.rules.search_paths import SHARED, USER, in_folder, pair, searching

CONDA = searching((USER, "user site"))


def test_names_what_wins_and_what_loses() -> None:
    """https://github.com/spinalcordtoolbox/spinalcordtoolbox/issues/3067"""
    [finding] = overridden_by_user_site(environment=CONDA, distributions=pair(USER, "h5py", "3.1.0", "2.10.0"))

    assert finding.message == "the user site puts h5py 3.1.0 before the environment's own"
    assert [(one.source, one.value) for one in finding.evidence] == [
        (USER, f"h5py 3.1.0 is imported, not 2.10.0 in {SITE_PACKAGES}")
    ]


def test_names_the_folders_of_several_once() -> None:
    distributions = (*pair(USER, "h5py", "3.1.0", "2.10.0"), *pair(USER, "torch", "1.7.0", "1.5.0"))
    [finding] = overridden_by_user_site(environment=CONDA, distributions=distributions)

    assert [(one.source, one.value) for one in finding.evidence] == [
        (USER, f"comes before {SITE_PACKAGES}"),
        ("torch", "1.7.0 is imported, not 1.5.0"),
        ("h5py", "3.1.0 is imported, not 2.10.0"),
    ]


def test_torch_comes_first_and_many_are_counted() -> None:
    others = [one for number in range(12) for one in pair(USER, f"pkg-{number}", "2.0", "1.0")]
    [finding] = overridden_by_user_site(
        environment=CONDA, distributions=(*others, *pair(USER, "torch", "1.13.1", "2.0.1"))
    )

    assert finding.message == "the user site puts torch 1.13.1 and 12 others before the environment's own"
    assert len(finding.evidence) == 12
    assert finding.evidence[-1].source == "3 more"


def test_the_remedy_is_not_to_reinstall() -> None:
    [finding] = overridden_by_user_site(environment=CONDA, distributions=pair(USER, "h5py", "3.1.0", "2.10.0"))

    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "export PYTHONNOUSERSITE=1",
        "conda env config vars set --prefix /opt/env PYTHONNOUSERSITE=1",
    )
    assert "to reinstall in the environment changes nothing" in finding.remedy.summary


def test_outside_of_conda_the_variable_is_all() -> None:
    system = searching((USER, "user site"), kind="system")
    [finding] = overridden_by_user_site(environment=system, distributions=pair(USER, "h5py", "3.1.0", "2.10.0"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export PYTHONNOUSERSITE=1",)


@pytest.mark.parametrize("installer", ["", "debian", "rpm"])
def test_is_silent_where_pip_user_stands_before_the_packages_of_the_system(installer: str) -> None:
    system = searching((USER, "user site"), kind="system")

    assert not overridden_by_user_site(
        environment=system, distributions=pair(USER, "numpy", "1.26.4", "1.21.5", installer=installer)
    )


@pytest.mark.parametrize(("installer", "count"), [("pip", 1), ("debian", 0)])
def test_what_a_venv_sees_of_the_system_counts_where_pip_put_it(installer: str, count: int) -> None:
    """In a container of NVIDIA, torch is the system's, and the home of the host may be mounted into it."""
    system = "/usr/local/lib/python3.10/dist-packages"
    winner = in_folder(USER, "torch", "1.13.1")
    loser = in_folder(system, "torch", "2.1.0a0", shadowed_by=winner.metadata_path, installer=installer)
    venv = searching((USER, "user site"), (system, "system dist-packages"), kind="venv", system_site_packages=True)

    assert len(overridden_by_user_site(environment=venv, distributions=(winner, loser))) == count


def test_is_silent_about_a_user_site_that_hides_nothing() -> None:
    distributions = (in_folder(USER, "awscli", "1.32"), in_folder(SITE_PACKAGES, "torch", "2.0.1"))

    assert not overridden_by_user_site(environment=CONDA, distributions=distributions)


def test_is_silent_about_the_same_version_and_about_pip() -> None:
    distributions = (*pair(USER, "numpy", "1.26.4", "1.26.4"), *pair(USER, "pip", "24.0", "23.2"))

    assert not overridden_by_user_site(environment=CONDA, distributions=distributions)


def test_is_silent_about_what_pythonpath_hides() -> None:
    both = searching((SHARED, "PYTHONPATH"), (USER, "user site"))

    assert not overridden_by_user_site(environment=both, distributions=pair(SHARED, "h5py", "3.1.0", "2.10.0"))


def test_a_venv_has_no_user_site() -> None:
    [conclusion] = overridden_by_user_site.check(environment=an_environment(), distributions=())

    assert isinstance(conclusion, NotApplicable)
