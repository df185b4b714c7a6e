"""ED124: clocks that are held down for heat or power."""

import pytest

from envdoctor.model.facts import Absence, Gpu, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed124_throttled_gpu import throttled_gpu
from tests.builders import a_gpu, a_gpu_health


def a_card(*reasons: str, index: int = 0, temperature: int | Unavailable = 93) -> Gpu:
    return a_gpu(index=index, health=a_gpu_health(clock_event_reasons=reasons, temperature=temperature))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("HW_THERMAL_SLOWDOWN", "for heat"),
        ("SW_THERMAL_SLOWDOWN", "for heat, by the driver"),
        ("HW_POWER_BRAKE_SLOWDOWN", "for want of power"),
        ("HW_SLOWDOWN", "by the hardware"),
    ],
)
def test_fires_on_heat_and_want_of_power(reason: str, words: str) -> None:
    [finding] = throttled_gpu(gpus=(a_card("SW_POWER_CAP", reason),))

    assert finding.message.endswith(f"are held down {words}")


def test_names_equal_gpus_together_with_the_heat_of_each() -> None:
    gpus = (
        a_card("HW_SLOWDOWN", temperature=91),
        a_card("HW_SLOWDOWN", index=1, temperature=94),
        a_card("HW_SLOWDOWN", index=2, temperature=Unavailable("not told")),
    )
    [finding] = throttled_gpu(gpus=gpus)

    assert finding.gpus == (0, 1, 2)
    assert [evidence.value for evidence in finding.evidence[1:]] == [
        "GPU 0: 91 degrees Celsius",
        "GPU 1: 94 degrees Celsius",
    ]


@pytest.mark.parametrize(
    "reasons",
    [(), ("GPU_IDLE",), ("SW_POWER_CAP",), ("APPLICATIONS_CLOCKS_SETTING", "SYNC_BOOST"), ("DISPLAY_CLOCK_SETTING",)],
)
def test_is_silent_about_reasons_of_normal_life(reasons: tuple[str, ...]) -> None:
    """NVIDIA/NVSentinel#890: an idle GPU has low clocks too."""
    assert not throttled_gpu(gpus=(a_card(*reasons),))


def test_is_silent_where_nvml_has_no_reasons() -> None:
    reasons = Unavailable("Not Supported", Absence.NOT_APPLICABLE)

    assert not list(throttled_gpu.check(gpus=(a_gpu(health=a_gpu_health(clock_event_reasons=reasons)),)))


def test_leaves_unreadable_reasons_undecided() -> None:
    gpu = a_gpu(health=a_gpu_health(clock_event_reasons=Unavailable("GPU is lost")))
    [conclusion] = throttled_gpu.check(gpus=(gpu,))

    assert isinstance(conclusion, Undecided)
