"""ED109: compute mode PROHIBITED."""

import pytest

from envdoctor.model.facts import Absence, ComputeMode, Gpu, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed109_prohibited_compute_mode import prohibited_compute_mode
from tests.builders import a_gpu, a_gpu_health, a_named_gpu, variables


def in_mode(mode: ComputeMode | Unavailable, index: int = 0, name: str = "Tesla K40m") -> Gpu:
    health = a_gpu_health(compute_mode=mode)
    return a_gpu("3.5", index=index, name=name, uuid=f"GPU-{index}", health=health)


def test_fires_and_names_equal_gpus_together() -> None:
    gpus = tuple(in_mode(ComputeMode.PROHIBITED, index) for index in (0, 1, 2, 5))
    [finding] = prohibited_compute_mode(gpus=gpus)

    assert "GPUs 0-2, 5 (Tesla K40m)" in finding.message
    assert finding.gpus == (0, 1, 2, 5)


@pytest.mark.parametrize("mode", [ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS])
def test_is_silent_in_modes_that_admit_programs(mode: ComputeMode) -> None:
    assert not prohibited_compute_mode(gpus=(in_mode(mode),))


def test_is_silent_when_the_gpu_is_hidden_from_the_job() -> None:
    gpus = (in_mode(ComputeMode.PROHIBITED, 0), in_mode(ComputeMode.DEFAULT, 1))

    assert not prohibited_compute_mode(gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="1"))


def test_is_silent_where_nvml_has_no_compute_mode() -> None:
    """NVML under WSL."""
    mode = Unavailable("nvmlDeviceGetComputeMode: Not Supported", Absence.NOT_APPLICABLE)

    assert not list(prohibited_compute_mode.check(gpus=(in_mode(mode),)))


def test_leaves_an_unreadable_mode_undecided() -> None:
    [conclusion] = prohibited_compute_mode.check(gpus=(in_mode(Unavailable("GPU is lost")),))

    assert conclusion == Undecided("GPU 0 (Tesla K40m): GPU is lost", gpus=(0,))


def test_leaves_it_undecided_which_of_different_gpus_is_meant() -> None:
    gpus = (in_mode(ComputeMode.PROHIBITED, 0), in_mode(ComputeMode.DEFAULT, 1, "Tesla V100"))
    [conclusion] = prohibited_compute_mode.check(gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="0"))

    assert isinstance(conclusion, Undecided)


@pytest.mark.parametrize("gpus", [(), (a_named_gpu(),)])
def test_has_nothing_to_judge_without_a_gpu_here(gpus: tuple[Gpu, ...]) -> None:
    [conclusion] = prohibited_compute_mode.check(gpus=gpus)

    assert isinstance(conclusion, NotApplicable)
