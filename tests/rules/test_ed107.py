"""ED107: machines, jobs and containers without a GPU."""

import pytest

from envdoctor.model.facts import Host, NvmlCode, NvmlSession, PciGpu, TorchBuild, Unavailable
from envdoctor.model.finding import Severity
from envdoctor.rules.ed107_no_gpu import no_gpu
from tests.builders import a_cuda_library, a_host, a_torch, an_nvml_session

NO_NVML = an_nvml_session(
    init=NvmlCode(12, "NVML_ERROR_LIBRARY_NOT_FOUND"), device_count=Unavailable("libnvidia-ml.so.1 not found")
)
NOT_LOADED = an_nvml_session(
    init=NvmlCode(9, "NVML_ERROR_DRIVER_NOT_LOADED"), device_count=Unavailable("driver not loaded")
)
NONE_LISTED = an_nvml_session(device_count=0)
EMPTY = a_host(device_nodes=(), pci_gpus=())
PASSED_THROUGH = PciGpu(address="0000:01:00.0", device_id="2684", driver="vfio-pci")


@pytest.mark.parametrize(
    ("nvml", "host"),
    [
        (NO_NVML, EMPTY),
        (NO_NVML, a_host(device_nodes=(), pci_gpus=Unavailable("no /sys"))),
        (NO_NVML, a_host(device_nodes=(), pci_gpus=(PASSED_THROUGH,))),
        (NOT_LOADED, EMPTY),  # the driver's packages on a machine without a card
        (NONE_LISTED, EMPTY),
        (NO_NVML, a_host(device_nodes=(), pci_gpus=(), wsl=True)),  # no driver in Windows
        (NONE_LISTED, a_host(container="docker", container_evidence="/.dockerenv")),
    ],
)
def test_fires_where_no_gpu_is(nvml: NvmlSession, host: Host) -> None:
    [finding] = no_gpu(nvml=nvml, host=host)

    assert finding.remedy is not None
    assert "--gpu 4090" in finding.remedy.summary


@pytest.mark.parametrize(
    ("nvml", "host"),
    [
        (an_nvml_session(), a_host()),
        (NO_NVML, a_host()),  # ED104
        (NOT_LOADED, a_host()),  # ED105, ED106
        (NONE_LISTED, a_host()),  # ED118, ED125
        (NO_NVML, a_host(device_nodes=(), pci_gpus=(), wsl=True, cuda_libraries=(a_cuda_library(),))),  # ED120, ED130
        (an_nvml_session(init=NvmlCode(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH")), EMPTY),
    ],
)
def test_is_silent_where_a_gpu_is(nvml: NvmlSession, host: Host) -> None:
    assert not no_gpu(nvml=nvml, host=host)


IN_A_CONTAINER = a_host(container="docker", container_evidence="/.dockerenv", device_nodes=())


@pytest.mark.parametrize("torch", [None, a_torch("2.6.0+cpu")])
def test_fires_in_a_container_that_was_given_none_of_the_gpus(torch: TorchBuild | None) -> None:
    assert no_gpu(nvml=NO_NVML, host=IN_A_CONTAINER, torch=torch)


def test_leaves_it_to_ed104_when_torch_wants_the_gpus_of_the_host() -> None:
    assert not no_gpu(nvml=NO_NVML, host=IN_A_CONTAINER, torch=a_torch())


def test_names_what_gives_a_container_the_gpus_of_its_host() -> None:
    """kcosta42/VQGAN-CLIP-Docker#1: docker-compose without a device reservation; `--gpus all` works."""
    host = a_host(container="docker", container_evidence="/.dockerenv", device_nodes=(), pci_gpus=())
    [finding] = no_gpu(nvml=NO_NVML, host=host)

    assert finding.remedy is not None
    assert "start the container with `--gpus all`" in finding.remedy.summary


def test_is_worth_knowing_and_no_more() -> None:
    assert no_gpu.severity is Severity.INFO
