"""ED110: a GPU for one process at a time, taken."""

import pytest

from envdoctor.model.facts import Absence, ComputeMode, Gpu, GpuProcess, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed110_taken_exclusive_gpu import taken_exclusive_gpu
from tests.builders import a_gpu, a_gpu_health, a_host

PROCESS = GpuProcess(pid=4711, used_memory=74 << 20)


def a_k40m(mode: ComputeMode | Unavailable, processes: tuple[GpuProcess, ...] | Unavailable, index: int = 0) -> Gpu:
    health = a_gpu_health(compute_mode=mode, processes=processes)
    return a_gpu("3.5", index=index, name="Tesla K40m", health=health)


def test_fires_on_the_gpu_that_is_taken_and_not_on_its_twin() -> None:
    """NVIDIA/DIGITS#2005: two K40m, GPU 0 exclusive with 74 MiB used, GPU 1 works."""
    gpus = (
        a_k40m(ComputeMode.EXCLUSIVE_PROCESS, (PROCESS,)),
        a_k40m(ComputeMode.EXCLUSIVE_PROCESS, (), index=1),
    )
    [finding] = taken_exclusive_gpu(gpus=gpus, host=a_host())

    assert finding.gpus == (0,)
    assert "process 4711" in finding.message


@pytest.mark.parametrize(
    "gpu",
    [
        a_k40m(ComputeMode.DEFAULT, (PROCESS,)),
        a_k40m(ComputeMode.EXCLUSIVE_PROCESS, ()),
        a_k40m(Unavailable("Not Supported", Absence.NOT_APPLICABLE), (PROCESS,)),
    ],
)
def test_is_silent_when_the_gpu_admits_another_process(gpu: Gpu) -> None:
    assert not list(taken_exclusive_gpu.check(gpus=(gpu,), host=a_host()))


@pytest.mark.parametrize(
    "gpu",
    [
        a_k40m(ComputeMode.EXCLUSIVE_PROCESS, Unavailable("no permission")),
        a_k40m(Unavailable("GPU is lost"), ()),
    ],
)
def test_leaves_what_nvml_did_not_tell_undecided(gpu: Gpu) -> None:
    [conclusion] = taken_exclusive_gpu.check(gpus=(gpu,), host=a_host())

    assert isinstance(conclusion, Undecided)


def test_has_nothing_to_judge_when_an_mps_daemon_shares_the_gpu() -> None:
    gpus = (a_k40m(ComputeMode.EXCLUSIVE_PROCESS, (PROCESS,)),)
    [conclusion] = taken_exclusive_gpu.check(gpus=gpus, host=a_host(mps_directory="/tmp/nvidia-mps"))

    assert isinstance(conclusion, NotApplicable)


def test_leaves_it_undecided_when_mps_cannot_be_told() -> None:
    gpus = (a_k40m(ComputeMode.EXCLUSIVE_PROCESS, (PROCESS,)),)
    [conclusion] = taken_exclusive_gpu.check(gpus=gpus, host=a_host(mps_directory=Unavailable("no permission")))

    assert isinstance(conclusion, Undecided)
