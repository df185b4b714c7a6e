"""ED117: memory errors that ECC could not correct."""

from typing import Any

import pytest

from envdoctor.model.facts import Gpu, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed117_faulty_gpu_memory import faulty_gpu_memory
from tests.builders import a_gpu, a_gpu_health


def an_a100(index: int = 0, **changes: Any) -> Gpu:
    counters: dict[str, Any] = {
        "ecc_enabled": True,
        "ecc_uncorrected": 0,
        "remapped_rows_pending": False,
        "remapped_rows_failed": False,
        "retired_pages_pending": False,
    }
    return a_gpu("8.0", index=index, name="NVIDIA A100-SXM4-80GB", health=a_gpu_health(**counters | changes))


@pytest.mark.parametrize(
    ("counter", "value"),
    [
        ("ecc_uncorrected", 3),
        ("remapped_rows_pending", True),
        ("remapped_rows_failed", True),
        ("retired_pages_pending", True),
    ],
)
def test_fires_on_each_counter(counter: str, value: Any) -> None:
    [finding] = faulty_gpu_memory(gpus=(an_a100(**{counter: value}), an_a100(1)))

    assert finding.gpus == (0,)


def test_a_reset_does_not_help_when_no_spare_row_is_left() -> None:
    [finding] = faulty_gpu_memory(gpus=(an_a100(remapped_rows_failed=True, remapped_rows_pending=True),))

    assert finding.remedy is not None
    assert "replacement" in finding.remedy.summary
    assert len(finding.evidence) == 2


def test_is_silent_about_healthy_memory() -> None:
    assert not list(faulty_gpu_memory.check(gpus=(an_a100(),)))


def test_is_silent_about_a_geforce_which_has_no_ecc() -> None:
    assert not list(faulty_gpu_memory.check(gpus=(a_gpu("8.9"),)))


def test_leaves_an_unreadable_counter_undecided() -> None:
    [conclusion] = faulty_gpu_memory.check(gpus=(an_a100(ecc_uncorrected=Unavailable("GPU is lost")),))

    assert isinstance(conclusion, Undecided)
