"""ED013: metadata that tell nothing, or contradict themselves."""

from dataclasses import replace

import pytest

from envdoctor.model.facts import Absence, Distribution, MetadataKind, Unavailable
from envdoctor.rules.ed013_unreadable_metadata import unreadable_metadata
from tests.builders import SITE_PACKAGES, a_distribution, an_environment

EMPTY = replace(
    a_distribution("mercurial", "5.4"), version=Unavailable("METADATA is missing"), problems=("METADATA is missing",)
)
RENAMED = replace(a_distribution("torch", "2.6.0"), version="2.8.0")


def test_fires_at_a_folder_without_metadata() -> None:
    """https://github.com/pypa/pip/issues/11352"""
    [finding] = unreadable_metadata(distributions=(EMPTY,))

    assert finding.message == f"the metadata of `mercurial` in `{SITE_PACKAGES}` tell no version"
    assert finding.evidence[0].value == "METADATA is missing"
    assert finding.remedy is not None
    assert finding.remedy.commands[0] == f"rm -r {EMPTY.metadata_path}"
    assert finding.remedy.commands[1].endswith("mercurial==5.4")


def test_fires_at_a_folder_that_was_renamed() -> None:
    [finding] = unreadable_metadata(distributions=(RENAMED,))

    assert finding.message == f"the metadata of `torch` in `{SITE_PACKAGES}` tell version 2.8.0 in a folder of 2.6.0"


def test_a_number_that_is_too_long_for_python_is_no_version() -> None:
    assert not list(unreadable_metadata(distributions=(replace(RENAMED, version="9" * 5000),)))


def test_an_egg_info_is_installed_again_without_its_version() -> None:
    egg = replace(EMPTY, metadata_kind=MetadataKind.EGG_INFO, metadata_path=f"{SITE_PACKAGES}/mercurial.egg-info")
    [finding] = unreadable_metadata(distributions=(egg,))

    assert finding.remedy is not None
    assert finding.remedy.commands[1].endswith("--no-deps mercurial")


def test_pip_does_not_replace_what_the_system_brought() -> None:
    [finding] = unreadable_metadata(
        distributions=(replace(EMPTY, installer=""),), environment=an_environment(kind="system")
    )

    assert finding.remedy is not None
    assert finding.remedy.commands == (f"rm -r {EMPTY.metadata_path}",)


@pytest.mark.parametrize(
    "distribution",
    [
        a_distribution("torch", "1.13.1+cu117"),
        # The names of wheels are escaped, and versions may be written in several ways.
        replace(a_distribution("pkg", "1.0_post1"), version="1.0.post1"),
        replace(a_distribution("pkg", "2013.10.0a0"), version="2013.10a0"),
        replace(a_distribution("pkg", "what"), version="1.0"),
        replace(
            a_distribution("pytz", "2004d"), version=Unavailable("version `2004d` is not one", Absence.NOT_APPLICABLE)
        ),
        replace(EMPTY, metadata_kind=MetadataKind.LEFTOVER),
        replace(EMPTY, metadata_kind=MetadataKind.EGG_LINK),
    ],
)
def test_is_silent_about(distribution: Distribution) -> None:
    assert not unreadable_metadata(distributions=(distribution,))


def test_leaves_doubled_metadata_to_the_rule_about_them() -> None:
    assert not unreadable_metadata(distributions=(EMPTY, a_distribution("mercurial", "6.0")))
