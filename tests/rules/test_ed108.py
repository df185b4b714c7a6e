"""ED108: GPUs that NVML lists and cannot use; each return value has its own way out."""

import pytest

from envdoctor.model.facts import NvmlCode
from envdoctor.rules.ed108_lost_gpu import lost_gpu
from tests.builders import a_gpu, an_nvml_session

LOST = NvmlCode(15, "NVML_ERROR_GPU_IS_LOST")
HANDLE, MEMORY = "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMemoryInfo"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (LOST, "Xid 79"),
        (NvmlCode(16, "NVML_ERROR_RESET_REQUIRED"), "resets the GPU"),
        (NvmlCode(8, "NVML_ERROR_INSUFFICIENT_POWER"), "power cables"),
        (NvmlCode(11, "NVML_ERROR_IRQ_ISSUE"), "kernel's log"),
    ],
)
def test_fires_with_the_way_out_of_each_fault(code: NvmlCode, remedy: str) -> None:
    nvml = an_nvml_session(device_count=2, failed_calls=((f"{HANDLE}(1)", code),))
    [finding] = lost_gpu(nvml=nvml, gpus=(a_gpu(), a_gpu(index=1)))

    assert finding.gpus == (1,)
    assert finding.remedy is not None
    assert remedy in finding.remedy.summary


def test_names_a_gpu_once_however_many_calls_failed() -> None:
    calls = ((f"{MEMORY}(0)", LOST), (f"{HANDLE}(2)", LOST), ("nvmlDeviceGetName(0)", LOST))
    findings = lost_gpu(nvml=an_nvml_session(failed_calls=calls), gpus=(a_gpu(),))

    assert [finding.message for finding in findings] == [
        "GPU 0 (NVIDIA GeForce RTX 4090) cannot be used: it has fallen off the bus",
        "GPU 2 cannot be used: it has fallen off the bus",
    ]


def test_fires_when_the_call_was_about_no_gpu() -> None:
    [finding] = lost_gpu(nvml=an_nvml_session(failed_calls=(("nvmlDeviceGetCount", LOST),)))

    assert finding.gpus == ()


@pytest.mark.parametrize(
    "code",
    [
        NvmlCode(3, "NVML_ERROR_NOT_SUPPORTED"),
        NvmlCode(4, "NVML_ERROR_NO_PERMISSION"),
        NvmlCode(13, "NVML_ERROR_FUNCTION_NOT_FOUND"),
        NvmlCode(999, "NVML_ERROR_UNKNOWN"),
    ],
)
def test_is_silent_about_calls_that_fail_on_healthy_gpus(code: NvmlCode) -> None:
    assert not lost_gpu(nvml=an_nvml_session(failed_calls=((f"{MEMORY}(0)", code),)), gpus=(a_gpu(),))
