"""ED004: PYTHONPATH wins over the environment."""

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed004_overridden_by_pythonpath import overridden_by_pythonpath
from tests.builders import an_environment
from tests.rules.search_paths import SHARED, USER, in_folder, pair, searching


def test_names_what_wins_and_unsets_the_variable() -> None:
    [finding] = overridden_by_pythonpath(
        environment=searching((SHARED, "PYTHONPATH")), distributions=pair(SHARED, "numpy", "1.19.5", "1.26.4")
    )

    assert finding.message == "PYTHONPATH puts numpy 1.19.5 before the environment's own"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset PYTHONPATH",)


def test_leaves_the_other_folders_of_pythonpath() -> None:
    environment = searching(("/repo", "PYTHONPATH"), (SHARED, "PYTHONPATH"))
    [finding] = overridden_by_pythonpath(
        environment=environment, distributions=pair(SHARED, "numpy", "1.19.5", "1.26.4")
    )

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export PYTHONPATH=/repo",)


def test_is_silent_about_what_hides_nothing_or_the_same() -> None:
    distributions = (in_folder(SHARED, "einops", "0.6"), *pair(SHARED, "numpy", "1.26.4", "1.26.4"))

    assert not overridden_by_pythonpath(environment=searching((SHARED, "PYTHONPATH")), distributions=distributions)


def test_is_silent_about_what_the_user_site_hides() -> None:
    both = searching((SHARED, "PYTHONPATH"), (USER, "user site"))

    assert not overridden_by_pythonpath(environment=both, distributions=pair(USER, "h5py", "3.1.0", "2.10.0"))


def test_is_not_asked_without_the_variable() -> None:
    [conclusion] = overridden_by_pythonpath.check(environment=an_environment(), distributions=())

    assert isinstance(conclusion, NotApplicable)
