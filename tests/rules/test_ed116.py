"""ED116: caps that cost speed, and caps that do not."""

import pytest

from envdoctor.model.facts import Absence, Gpu, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed116_capped_power import capped_power
from tests.builders import a_gpu, a_gpu_health


def with_limit(limit: float | Unavailable, default: float | Unavailable, index: int = 0) -> Gpu:
    health = a_gpu_health(power_limit=limit, power_default_limit=default)
    return a_gpu("8.6", index=index, name="NVIDIA GeForce RTX 3090", health=health)


def test_fires_when_two_cards_are_held_at_two_thirds() -> None:
    """noonghunna/club-3090#585: 250 W of 370 W."""
    [finding] = capped_power(gpus=(with_limit(250.0, 370.0), with_limit(250.0, 370.0, 1)))

    assert "GPUs 0-1 (NVIDIA GeForce RTX 3090) is limited to 250 W, the default is 370 W" in finding.message
    assert finding.remedy is not None
    assert finding.remedy.commands == ("sudo nvidia-smi -i 0 -pl 370", "sudo nvidia-smi -i 1 -pl 370")


NOT_SUPPORTED = Unavailable("Not Supported", Absence.NOT_APPLICABLE)


@pytest.mark.parametrize(
    ("limit", "default"), [(350.0, 350.0), (400.0, 350.0), (315.0, 350.0), (NOT_SUPPORTED, NOT_SUPPORTED)]
)
def test_is_silent_about_limits_near_the_default(limit: float | Unavailable, default: float | Unavailable) -> None:
    assert not list(capped_power.check(gpus=(with_limit(limit, default),)))


def test_leaves_an_unreadable_limit_undecided() -> None:
    [conclusion] = capped_power.check(gpus=(with_limit(Unavailable("GPU is lost"), 350.0),))

    assert isinstance(conclusion, Undecided)
