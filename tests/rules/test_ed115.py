"""ED115: lanes are judged, the generation of an idle link is not."""

from typing import Any

import pytest

from envdoctor.model.facts import Absence, Gpu, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed115_narrow_pcie_link import narrow_pcie_link
from tests.builders import a_gpu, a_gpu_health

NOT_SUPPORTED = Unavailable("nvmlDeviceGetCurrPcieLinkWidth: Not Supported", Absence.NOT_APPLICABLE)


def with_link(index: int = 0, **changes: Any) -> Gpu:
    return a_gpu("8.6", index=index, name="NVIDIA GeForce RTX 3090", health=a_gpu_health(**changes))


@pytest.mark.parametrize("width", [1, 4, 8])
def test_fires_when_lanes_are_missing(width: int) -> None:
    """noonghunna/club-3090#585: 4 of 16 lanes."""
    [finding] = narrow_pcie_link(gpus=(with_link(pcie_width=width, pcie_max_width=16),))

    assert f"uses {width} of 16 lanes" in finding.message


def test_tells_equal_links_once_and_different_ones_apart() -> None:
    gpus = (with_link(0, pcie_width=4), with_link(1, pcie_width=4), with_link(2, pcie_width=1), with_link(3))

    assert [finding.gpus for finding in narrow_pcie_link(gpus=gpus)] == [(0, 1), (2,)]


@pytest.mark.parametrize(
    "link",
    [
        {"pcie_generation": 1, "pcie_max_generation": 4},  # janhq/jan#183: 2.5 GT/s at idle is power saving
        {"pcie_width": 16, "pcie_max_width": 16},
        {"pcie_width": 8, "pcie_max_width": 8},
        {"pcie_width": 0, "pcie_max_width": 16},
        {"pcie_width": NOT_SUPPORTED, "pcie_max_width": NOT_SUPPORTED},
    ],
)
def test_is_silent_about_healthy_links(link: dict[str, Any]) -> None:
    assert not list(narrow_pcie_link.check(gpus=(with_link(**link),)))


def test_leaves_an_unreadable_link_undecided() -> None:
    gpu = with_link(pcie_width=NOT_SUPPORTED, pcie_max_width=Unavailable("GPU is lost"))
    [conclusion] = narrow_pcie_link.check(gpus=(gpu,))

    assert isinstance(conclusion, Undecided)
