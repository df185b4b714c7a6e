"""ED007: PYTHONPATH leads to the packages of another Python."""

import pytest

from envdoctor.model.facts import Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed007_packages_of_another_python import packages_of_another_python
from tests.builders import an_environment
from tests.rules.search_paths import searching

ROS = "/opt/ros/kinetic/lib/python2.7/dist-packages"


def test_fires_at_the_packages_of_ros() -> None:
    """https://github.com/rickstaa/panda-autograsp/issues/6"""
    environment = searching((ROS, "PYTHONPATH"), ("/repo", "PYTHONPATH"))
    [finding] = packages_of_another_python(environment=environment)

    assert finding.message == "PYTHONPATH leads Python 3.10 to packages of Python 2.7"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("export PYTHONPATH=/repo",)


@pytest.mark.parametrize(
    "folder",
    [
        "/shared/lib/python3.10/site-packages",
        "/shared/lib/python3/dist-packages",
        "/home/user/python2.7/project",
        "/repo",
        "/opt/python3.8/bin",
    ],
)
def test_is_silent_where_the_path_names_no_other_python(folder: str) -> None:
    assert not packages_of_another_python(environment=searching((folder, "PYTHONPATH")))


def test_is_silent_about_folders_that_pythonpath_does_not_name() -> None:
    [conclusion] = packages_of_another_python.check(environment=searching((ROS, ".pth ros.pth")))

    assert isinstance(conclusion, NotApplicable)


def test_cannot_tell_without_the_version_of_the_interpreter() -> None:
    environment = searching((ROS, "PYTHONPATH"), python_version=Unavailable("not told"))
    [conclusion] = packages_of_another_python.check(environment=environment)

    assert isinstance(conclusion, Undecided)


def test_is_not_asked_without_the_variable() -> None:
    [conclusion] = packages_of_another_python.check(environment=an_environment())

    assert isinstance(conclusion, NotApplicable)
