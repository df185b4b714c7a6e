"""ED017: an editable installation without its source."""

from envdoctor.rules.ed017_lost_source import lost_source
from tests.builders import a_distribution, an_environment

MMDET = a_distribution("mmdet", "2.25.0", editable_root="/home/user/mmdetection", source_is_gone=True)


def test_names_the_folder() -> None:
    [finding] = lost_source(distributions=(MMDET,), environment=an_environment())

    assert finding.message == "`mmdet` is installed from `/home/user/mmdetection`, which is gone"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/opt/env/bin/python -m pip uninstall --yes mmdet",)


def test_is_silent_about_a_source_that_is_there() -> None:
    assert not lost_source(distributions=(a_distribution(editable_root="/repo"), a_distribution()))
