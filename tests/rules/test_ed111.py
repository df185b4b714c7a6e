"""ED111: GPU memory that others hold."""

from typing import Any

import pytest

from envdoctor.model.facts import Gpu, GpuProcess, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed111_taken_gpu_memory import taken_gpu_memory
from tests.builders import a_gpu, a_gpu_health

MIB = 1 << 20


def with_free(free: int | Unavailable, index: int = 0, **changes: Any) -> Gpu:
    health = a_gpu_health(**{"total_memory": 24_268 * MIB, "free_memory": free} | changes)
    return a_gpu("8.6", index=index, name="NVIDIA GeForce RTX 3090", health=health)


def test_fires_when_another_process_holds_the_card() -> None:
    """wutong16/HyperDreamer#4: 22.19 of 23.68 GiB in use on a 3090."""
    gpu = with_free(1_545 * MIB, processes=(GpuProcess(pid=777, used_memory=22_720 * MIB),))
    [finding] = taken_gpu_memory(gpus=(gpu,))

    assert finding.evidence[0].value == "GPU 0: 1.5 GiB of 23.7 GiB free, held by process 777"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("ps -fp 777",)


@pytest.mark.parametrize("processes", [(), Unavailable("no permission")])
def test_fires_when_the_processes_are_not_visible(processes: tuple[GpuProcess, ...] | Unavailable) -> None:
    [finding] = taken_gpu_memory(gpus=(with_free(MIB, processes=processes),))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("nvidia-smi",)


def test_names_equal_gpus_together_with_the_memory_of_each() -> None:
    [finding] = taken_gpu_memory(gpus=(with_free(1_024 * MIB), with_free(2_048 * MIB, 1), with_free(24_000 * MIB, 2)))

    assert "GPUs 0-1 (NVIDIA GeForce RTX 3090)" in finding.message
    assert [evidence.value for evidence in finding.evidence] == [
        "GPU 0: 1.0 GiB of 23.7 GiB free",
        "GPU 1: 2.0 GiB of 23.7 GiB free",
    ]


@pytest.mark.parametrize(
    "gpu",
    [
        with_free(23_800 * MIB),
        with_free(21_500 * MIB),  # a desktop and a browser
        with_free(12_134 * MIB),
        with_free(10 * MIB, mig_enabled=True),
    ],
)
def test_is_silent_when_half_is_free_or_slices_have_their_own(gpu: Gpu) -> None:
    assert not taken_gpu_memory(gpus=(gpu,))


def test_leaves_unreadable_memory_undecided() -> None:
    [conclusion] = taken_gpu_memory.check(gpus=(with_free(Unavailable("GPU is lost")),))

    assert isinstance(conclusion, Undecided)
