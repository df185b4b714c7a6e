"""ED009: PYTHONPATH hides modules."""

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed009_module_hidden_by_pythonpath import module_hidden_by_pythonpath
from tests.builders import SITE_PACKAGES, a_shadowed_module, an_environment
from tests.rules.search_paths import SHARED, pair, searching

ROS = "/opt/ros/kinetic/lib/python2.7/dist-packages"
ENVIRONMENT = searching((ROS, "PYTHONPATH"), (SHARED, "PYTHONPATH"))
CV2 = a_shadowed_module(
    "cv2", taken=f"{ROS}/cv2.so", hidden=f"{SITE_PACKAGES}/cv2", hidden_origin="site-packages", lost=("cv2.cv2",)
)


def test_fires_with_what_is_lost() -> None:
    """https://github.com/rickstaa/panda-autograsp/issues/6"""
    [finding] = module_hidden_by_pythonpath(environment=ENVIRONMENT, shadowed_modules=(CV2,))

    assert finding.message == f"`{ROS}` on PYTHONPATH hides `cv2`"
    assert finding.evidence[0].value == f"hides {SITE_PACKAGES}/cv2 (site-packages), with cv2.cv2"
    assert finding.remedy is not None
    assert finding.remedy.commands == (f"export PYTHONPATH={SHARED}",)


def test_each_folder_has_a_finding_and_many_modules_are_counted() -> None:
    many = tuple(a_shadowed_module(f"m{number:02}", taken=f"{SHARED}/m{number:02}.py") for number in range(12))
    _, finding = module_hidden_by_pythonpath(environment=ENVIRONMENT, shadowed_modules=(CV2, *many))

    assert finding.message == f"`{SHARED}` on PYTHONPATH hides `m00`, `m01`, `m02` and 9 more"
    assert len(finding.evidence) == 11
    assert finding.evidence[-1].value == "m10, m11"


def test_leaves_whole_distributions_to_the_rule_that_compares_versions() -> None:
    module = a_shadowed_module(
        "numpy", taken=f"{SHARED}/numpy", hidden=f"{SITE_PACKAGES}/numpy", lost=("numpy.multiarray",)
    )
    distributions = pair(SHARED, "numpy", "1.19.5", "1.26.4")

    assert not module_hidden_by_pythonpath(
        environment=ENVIRONMENT, shadowed_modules=(module,), distributions=distributions
    )


def test_leaves_what_is_proven_to_break_and_the_current_folder_to_other_rules() -> None:
    proven = a_shadowed_module("random", lacking="Random", asked_by="tempfile")
    here = a_shadowed_module("random", origin="current folder")

    assert not module_hidden_by_pythonpath(environment=ENVIRONMENT, shadowed_modules=(proven, here))


def test_is_silent_about_a_checkout_that_lacks_nothing() -> None:
    checkout = a_shadowed_module("mmdet", hidden_origin="site-packages")

    assert not module_hidden_by_pythonpath(environment=ENVIRONMENT, shadowed_modules=(checkout,))


def test_is_not_asked_without_the_variable() -> None:
    [conclusion] = module_hidden_by_pythonpath.check(environment=an_environment(), shadowed_modules=())

    assert isinstance(conclusion, NotApplicable)
