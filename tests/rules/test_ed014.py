"""ED014: what an interrupted pip set aside."""

from envdoctor.model.facts import MetadataKind
from envdoctor.rules.ed014_interrupted_installation import interrupted_installation
from tests.builders import SITE_PACKAGES, a_distribution

FOLDERS = tuple(
    a_distribution(name, metadata_kind=MetadataKind.LEFTOVER, metadata_path=f"{SITE_PACKAGES}/{name}")
    for name in ("~orch", "~orch-2.0.1.dist-info", "~illow")
)


def test_names_what_is_left_and_what_it_was() -> None:
    """https://github.com/tin2tin/Pallaidium/issues/40"""
    [finding] = interrupted_installation(distributions=(*FOLDERS, a_distribution("torch", "2.1.0")))

    assert finding.message == f"an interrupted pip left 3 folders in `{SITE_PACKAGES}`"
    assert [one.source for one in finding.evidence] == ["~illow", "~orch", "~orch-2.0.1.dist-info"]
    assert "nothing of that name is installed" in finding.evidence[0].value
    assert "`torch` was being replaced" in finding.evidence[1].value
    assert "`torch` was being replaced" in finding.evidence[2].value
    assert finding.remedy is not None
    assert finding.remedy.commands[1] == f"rm -r '{SITE_PACKAGES}/~orch'"


def test_is_silent_about_what_is_installed() -> None:
    assert not interrupted_installation(distributions=(a_distribution(),))
