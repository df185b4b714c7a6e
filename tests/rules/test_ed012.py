"""ED012: metadata of several versions in one folder."""

from dataclasses import replace

from envdoctor.model.facts import MetadataKind, Unavailable
from envdoctor.rules.ed012_doubled_metadata import doubled_metadata
from tests.builders import SITE_PACKAGES, a_damaged_installation, a_distribution, an_environment

OLD = a_distribution("torch", "2.6.0")
NEW = a_distribution("torch", "2.8.0")
EMPTY = replace(
    a_distribution("torch", "1.12.1+cu116"),
    version=Unavailable("METADATA is missing"),
    problems=("METADATA is missing",),
)


def test_deletes_the_one_that_tells_nothing() -> None:
    """https://github.com/python/cpython/issues/100666"""
    [finding] = doubled_metadata(distributions=(EMPTY, NEW))

    assert finding.message == f"`torch` has metadata of 2 versions in `{SITE_PACKAGES}`"
    assert [one.value for one in finding.evidence] == ["METADATA is missing", "version 2.8.0"]
    assert finding.remedy is not None
    assert finding.remedy.commands == (f"rm -r {SITE_PACKAGES}/torch-1.12.1+cu116.dist-info",)


def test_deletes_the_one_whose_files_are_gone() -> None:
    damage = a_damaged_installation("torch", metadata_path=OLD.metadata_path, gone_count=40, recorded=1700)
    [finding] = doubled_metadata(distributions=(OLD, NEW), damaged_installations=(damage,))

    assert finding.evidence[0].value == "version 2.6.0; 40 of its 1700 modules and libraries are gone"
    assert finding.remedy is not None
    assert "the files are those of 2.8.0" in finding.remedy.summary
    assert finding.remedy.commands == (f"rm -r {OLD.metadata_path}",)


def test_deletes_both_where_it_cannot_be_told() -> None:
    [finding] = doubled_metadata(distributions=(OLD, NEW), environment=an_environment())

    assert finding.remedy is not None
    assert finding.remedy.commands[:2] == (f"rm -r {OLD.metadata_path}", f"rm -r {NEW.metadata_path}")
    assert finding.remedy.commands[2].endswith("--force-reinstall --no-deps torch==2.8.0")


def test_an_egg_info_beside_a_dist_info_of_another_version_counts() -> None:
    egg = a_distribution(
        "torch", "2.6.0", metadata_kind=MetadataKind.EGG_INFO, metadata_path=f"{SITE_PACKAGES}/torch-2.6.0.egg-info"
    )

    assert doubled_metadata(distributions=(egg, NEW))
    assert not doubled_metadata(distributions=(egg, OLD))


def test_a_record_of_conda_and_another_folder_are_no_double() -> None:
    record = a_distribution("torch", "2.6.0", metadata_kind=MetadataKind.CONDA_META)
    elsewhere = a_distribution("torch", "2.6.0", location="/home/user/.local/lib/python3.10/site-packages")

    assert not doubled_metadata(distributions=(record, elsewhere, NEW))
