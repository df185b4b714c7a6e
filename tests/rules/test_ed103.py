"""ED103: the forward-compatibility libcuda, on cards that refuse it and on cards that do not."""

import pytest

from envdoctor.model.facts import CudaLibrary, Gpu, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed103_forward_compatibility_on_geforce import forward_compatibility_on_geforce
from tests.builders import a_compat_library, a_cuda_library, a_driver, a_gpu, a_host, a_named_gpu

RTX_3090S = tuple(a_gpu("8.6", index=index, name="NVIDIA GeForce RTX 3090") for index in range(8))
GTX_1650 = a_gpu("7.5", name="NVIDIA GeForce GTX 1650", brand="GEFORCE_RTX")
A100 = a_gpu("8.0", name="NVIDIA A100-SXM4-80GB", brand="NVIDIA")
RTX_A6000 = a_gpu("8.6", name="NVIDIA RTX A6000", brand="NVIDIA_RTX")


@pytest.mark.parametrize(
    ("gpus", "driver", "library"),
    [
        (RTX_3090S, "525.89.02", "530.30.02"),  # HorizonRobotics/GUMP#1
        (RTX_3090S[:1], "525.147.05", "530.30.02"),  # AIR-DISCOVER/ICRA2024-Sim2Real-AXS#5
        ((GTX_1650,), "460.80", "465.19.01"),  # DeepVAC/TorchPod#43
    ],
)
def test_fires_when_a_geforce_gets_a_newer_compat_library(gpus: tuple[Gpu, ...], driver: str, library: str) -> None:
    host = a_host(cuda_libraries=(a_compat_library(library),))
    [finding] = forward_compatibility_on_geforce(gpus=gpus, driver=a_driver(driver), host=host)

    assert finding.gpus == tuple(gpu.index for gpu in gpus)
    assert library in finding.evidence[0].value


def test_fires_when_the_library_was_mounted_among_the_drivers_own() -> None:
    host = a_host(cuda_libraries=(a_cuda_library("530.30.02"),))

    assert forward_compatibility_on_geforce(gpus=(GTX_1650,), driver=a_driver("525.89.02"), host=host)


def test_names_equal_cards_once() -> None:
    host = a_host(cuda_libraries=(a_compat_library("530.30.02"),))
    [finding] = forward_compatibility_on_geforce(gpus=RTX_3090S, driver=a_driver("525.89.02"), host=host)

    assert "GPUs 0-7 (NVIDIA GeForce RTX 3090)" in finding.message


def test_the_remedy_cleans_the_variable_that_put_the_library_first() -> None:
    host = a_host(cuda_libraries=(a_compat_library("530.30.02", found_through="LD_LIBRARY_PATH"),))
    [finding] = forward_compatibility_on_geforce(gpus=(GTX_1650,), driver=a_driver("525.89.02"), host=host)

    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("export LD_LIBRARY_PATH=")


@pytest.mark.parametrize(
    "libraries",
    [
        (),
        (a_compat_library("525.89.02"),),  # the same release: no forward compatibility is attempted
        (a_compat_library("520.61.05"),),
        (a_cuda_library("525.89.02"), a_compat_library("530.30.02")),  # on disk, but not first
        (a_compat_library("530.30.02", release=Unavailable("no release in the name")),),
    ],
)
def test_is_silent_when_no_newer_compat_library_wins(libraries: tuple[CudaLibrary, ...]) -> None:
    host = a_host(cuda_libraries=libraries)

    assert not forward_compatibility_on_geforce(gpus=RTX_3090S, driver=a_driver("525.89.02"), host=host)


@pytest.mark.parametrize("gpus", [(), (A100,), (RTX_A6000,), (a_named_gpu("8.6"),)])
def test_has_nothing_to_judge_without_a_geforce_here(gpus: tuple[Gpu, ...]) -> None:
    host = a_host(cuda_libraries=(a_compat_library("530.30.02"),))
    [conclusion] = forward_compatibility_on_geforce.check(gpus=gpus, driver=a_driver("525.89.02"), host=host)

    assert isinstance(conclusion, NotApplicable)


def test_is_silent_when_the_driver_is_not_known() -> None:
    driver = a_driver(release_version=Unavailable("not told"))
    host = a_host(cuda_libraries=(a_compat_library("530.30.02"),))

    assert not forward_compatibility_on_geforce(gpus=RTX_3090S, driver=driver, host=host)
