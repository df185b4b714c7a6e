"""ED020: a distribution is twice in its environment."""

from envdoctor.model.facts import MetadataKind, SearchEntry
from envdoctor.rules.ed020_doubled_installation import doubled_installation
from tests.builders import SITE_PACKAGES, an_environment
from tests.rules.search_paths import USER, in_folder, pair, searching

EGG_FOLDER = f"{SITE_PACKAGES}/apex-0.1-py3.10.egg"
ENVIRONMENT = an_environment(
    search_path=(*searching().search_path, SearchEntry(path=EGG_FOLDER, origin=".pth easy-install.pth"))
)
WHEEL = in_folder(SITE_PACKAGES, "apex", "0.9.10.dev0")
EGG = in_folder(
    EGG_FOLDER,
    "apex",
    "0.1",
    metadata_kind=MetadataKind.EGG_INFO,
    metadata_path=f"{EGG_FOLDER}/EGG-INFO",
    shadowed_by=WHEEL.metadata_path,
)


def test_the_apex_of_the_default_index_hides_the_one_that_was_built() -> None:
    [finding] = doubled_installation(environment=ENVIRONMENT, distributions=(WHEEL, EGG))

    assert finding.message == f"`apex` 0.9.10.dev0 in `{SITE_PACKAGES}` hides the one in `{EGG_FOLDER}`"
    assert finding.evidence[1].value == "0.1, not imported"


def test_is_silent_about_the_only_one_and_about_other_places() -> None:
    outside = searching((USER, "user site"))

    assert not doubled_installation(environment=ENVIRONMENT, distributions=(WHEEL,))
    assert not doubled_installation(environment=outside, distributions=pair(USER, "h5py", "3.1.0", "2.10.0"))
