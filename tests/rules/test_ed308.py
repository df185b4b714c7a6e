from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.model.loading import LoadWay
from envdoctor.rules.ed308_missing_system_library import missing_system_library
from tests.builders import a_distribution, a_failed_load, a_host, a_loader, a_missing_library, an_environment


def judge(kb: KnowledgeBase, name: str, distribution: str = "ext", **facts: Any) -> list[Finding]:
    changes = facts.pop("changes", {})
    failed = a_failed_load(
        a_missing_library(name), distribution=distribution, needs_torch=False, after_torch=False, **changes
    )
    distributions = (a_distribution(distribution, "4.9.0.80"),)
    return missing_system_library(loader=a_loader(failed), distributions=distributions, kb=kb, **facts)


def test_opencv_has_a_twin_without_a_desktop(kb: KnowledgeBase) -> None:
    # https://github.com/gridai/gridai/issues/148
    [finding] = judge(kb, "libGL.so.1", "opencv-python", environment=an_environment())

    assert finding.message == "opencv-python 4.9.0.80 needs `libGL.so.1`, which this system does not have"
    assert finding.remedy is not None
    assert finding.remedy.summary == (
        "install opencv-python-headless, which needs no desktop; or install libgl1 and libglib2.0-0"
    )
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip uninstall --yes opencv-python",
        "/opt/env/bin/python -m pip install --no-deps opencv-python-headless==4.9.0.80",
    )
    assert not finding.remedy.needs_admin


def test_in_a_container_you_are_the_administrator(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, "libsndfile.so.1", host=a_host(container="docker"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("apt-get update && apt-get install --yes --no-install-recommends libsndfile1",)
    assert not finding.remedy.needs_admin


def test_elsewhere_the_package_is_the_administrators_business(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, "libgomp.so.1", host=a_host())

    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("sudo apt-get update && sudo apt-get install")
    assert finding.remedy.needs_admin


def test_other_systems_have_other_names(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, "libGL.so.1", host=a_host(distribution="Rocky Linux 8.9 (Green Obsidian)"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()
    assert finding.remedy.summary == "install libgl1; this is how Debian and Ubuntu call it"


def test_a_name_of_one_release_is_not_pasted_into_another(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, "libavcodec.so.59", host=a_host())

    assert finding.remedy is not None
    assert finding.remedy.summary == "install libavcodec59 (Debian 12; other releases have another version of it)"
    assert finding.remedy.commands == ()


def test_an_unknown_library_is_named_at_least(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, "libunheardof.so.7")

    assert finding.remedy is not None
    assert finding.remedy.summary == "install the package of this system that has libunheardof.so.7"


@pytest.mark.parametrize("name", ["libcudart.so.12", "libcuda.so.1", "libpython3.8.so.1.0", "libx-0123abcd.so.1"])
def test_is_silent_about_libraries_of_others(kb: KnowledgeBase, name: str) -> None:
    assert not judge(kb, name)


def test_is_silent_where_nothing_imports_it(kb: KnowledgeBase) -> None:
    assert not judge(kb, "libmpi.so.40", changes={"way": LoadWay.PERHAPS, "import_chain": ()})
