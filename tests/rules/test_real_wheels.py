"""What the rules about device code say of every library of 44 real wheels, reviewed by hand.

Alarms that stand in the tables below are true: nothing in the wheel runs there (ED204), or only PTX does (ED205).
Whoever changes a rule and finds another alarm here has to look at the histogram in fixtures/wheels/coverage.json.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.device_code import ContainerGroup
from envdoctor.model.facts import DeviceCode, LibraryRole, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed201_torch_without_code_for_gpu import torch_without_code_for_gpu
from envdoctor.rules.ed204_extension_without_code_for_gpu import extension_without_code_for_gpu
from envdoctor.rules.ed205_extension_through_ptx import extension_through_ptx
from envdoctor.rules.ed206_extension_partly_without_code import extension_partly_without_code
from tests.builders import SITE_PACKAGES, a_container, a_gpu, a_library, a_torch

WHEELS: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parents[2] / "fixtures/wheels/coverage.json").read_text("utf-8")
)
EXTENSIONS = [wheel for wheel in WHEELS if not wheel.startswith(("torch-", "nvidia_"))]
TORCHES = [wheel for wheel in WHEELS if wheel.startswith("torch-")]

CAPABILITIES = ["7.5", "8.0", "8.6", "8.9", "9.0", "12.0"]
TURING, AMPERE_TO_BLACKWELL, TO_HOPPER = {"7.5"}, {*CAPABILITIES} - {"7.5"}, {*CAPABILITIES} - {"12.0"}

NO_CODE = {
    "autoawq_kernels-0.0.6": {"12.0"},
    "autoawq_kernels-0.0.9": {"12.0"},
    "bitsandbytes-0.35.4": {"9.0", "12.0"},
    "bitsandbytes-0.37.2": {"12.0"},
    "bitsandbytes-0.41.3": {"12.0"},
    "deepspeed_kernels-0.0.1.dev1698255861": {"7.5"},
    "faiss_gpu_cu12-1.8.0.2": {"12.0"},
    "sgl_kernel-0.3.21": {"7.5"},
}
ONLY_PTX = {
    "auto_gptq-0.7.1": {"12.0"},
    "cupy_cuda102-12.3.0": AMPERE_TO_BLACKWELL,
    "cupy_cuda11x-13.6.0": {"12.0"},
    "deepspeed_kernels-0.0.1.dev1698255861": {"12.0"},
    "faiss_gpu-1.7.2": AMPERE_TO_BLACKWELL,
    "jax_cuda12_plugin-0.4.30": {"12.0"},
    "spconv_cu118-2.3.6": {"12.0"},
    "spconv_cu118-2.3.8": {"12.0"},
    "spconv_cu126-2.3.8": {"12.0"},
    "tensorflow-2.15.1": {"9.0", "12.0"},
    "torchvision-0.5.0": AMPERE_TO_BLACKWELL,
    "torchvision-0.8.2": AMPERE_TO_BLACKWELL,
    "torchvision-0.11.3": AMPERE_TO_BLACKWELL,
    "torchvision-0.16.2": {"12.0"},
    "xformers-0.0.23": {"12.0"},
    "xformers-0.0.25": {"12.0"},
    "xformers-0.0.28": {"12.0"},
    "xformers-0.0.29.post3": {"12.0"},
    "xformers-0.0.35": {"12.0"},
}
PARTLY = {
    "autoawq_kernels-0.0.6": TURING,  # awq_v2_ext is for 8.0 and newer
    "autoawq_kernels-0.0.9": TURING,
    "onnxruntime_gpu-1.31.1": TURING,  # fused attention is for 8.0 and newer
    "sgl_kernel-0.3.21": {"12.0"},  # flash_ops has no code for it
    "spconv_cu118-2.3.6": TO_HOPPER,  # 195 of 606 containers: the default of nvcc, sm_52
    "spconv_cu118-2.3.8": TO_HOPPER,
    "spconv_cu126-2.3.8": TO_HOPPER,
    "tensorflow-2.15.1": {"8.0", "8.6", "8.9"},  # MLIR's kernels, which --deep finds, are for 7.5 and PTX
    "xformers-0.0.23": TURING,  # _C_flashattention is for 8.0 and newer
    "xformers-0.0.25": TURING,
    "xformers-0.0.29.post3-cp311-cp311-win": TURING,  # on Linux it has _C_flashattention3, for 9.0 exactly
}

SECTIONS = {"mixed": ".nv_fatbin"}

# The arch lists of torch.cuda.get_arch_list(); of 1.0.0, which has none, what its own containers hold.
ARCH_LISTS = {
    "1.0.0": "sm_35 sm_50 sm_60 sm_70 compute_50",
    "1.7.1": "sm_37 sm_50 sm_60 sm_70 sm_75",
    "1.10.2": "sm_37 sm_50 sm_60 sm_70",
    "1.13.1": "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86",
    "2.8.0": "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    "2.14.1": "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
}


def libraries_of(wheel: str, role: LibraryRole) -> tuple[DeviceCode, ...]:
    return tuple(
        a_library(
            *map(read_group, groups),
            library=f"{SITE_PACKAGES}/{path}",
            distribution=wheel.split("-", maxsplit=1)[0].replace("_", "-"),
            role=LibraryRole.NVIDIA if "/libnvjpeg" in path else role,
        )
        for path, groups in WHEELS[wheel].items()
    )


def read_group(text: str) -> ContainerGroup:
    count, section, *archs = text.split()
    return a_container(
        " ".join(archs),
        count=int(count),
        relocatable=section == "__nv_relfatbin",
        section=SECTIONS.get(section, section),
    )


def is_in(table: dict[str, set[str]], wheel: str, capability: str) -> bool:
    return any(wheel.startswith(name) and capability in capabilities for name, capabilities in table.items())


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("wheel", EXTENSIONS)
def test_alarms_are_those_that_were_reviewed(wheel: str, capability: str, kb: KnowledgeBase) -> None:
    code, gpus = libraries_of(wheel, LibraryRole.EXTENSION), (a_gpu(capability),)
    no_code = extension_without_code_for_gpu(device_code=code, gpus=gpus, kb=kb)
    only_ptx = extension_through_ptx(device_code=code, gpus=gpus, kb=kb)
    partly = extension_partly_without_code(device_code=code, gpus=gpus, kb=kb)

    assert bool(no_code) is is_in(NO_CODE, wheel, capability)
    assert bool(only_ptx) is is_in(ONLY_PTX, wheel, capability)
    assert bool(partly) is is_in(PARTLY, wheel, capability)


def test_every_alarm_is_about_a_wheel_of_the_table() -> None:
    names = {*NO_CODE, *ONLY_PTX, *PARTLY}

    assert [name for name in names if not any(wheel.startswith(name) for wheel in EXTENSIONS)] == []


@pytest.mark.parametrize("capability", ["3.5", "6.1", "7.0", *CAPABILITIES, "10.0", "12.1"])
@pytest.mark.parametrize("wheel", TORCHES)
def test_the_containers_of_torch_never_contradict_its_arch_list(wheel: str, capability: str, kb: KnowledgeBase) -> None:
    version = wheel.split("-")[1]
    code, gpus = libraries_of(wheel, LibraryRole.TORCH), (a_gpu(capability),)
    listed = a_torch(f"{version}+cu128", ARCH_LISTS[version])
    unlisted = replace(listed, arch_list=Unavailable("not read"))
    by_list = list(torch_without_code_for_gpu.check(torch=listed, gpus=gpus, kb=kb))
    by_containers = list(torch_without_code_for_gpu.check(torch=unlisted, gpus=gpus, device_code=code, kb=kb))

    assert bool(by_list) is bool(by_containers) or isinstance(by_containers[0], Undecided)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_libraries_of_nvidia_raise_no_alarm(capability: str, kb: KnowledgeBase) -> None:
    [wheel] = [wheel for wheel in WHEELS if wheel.startswith("nvidia_")]
    code, gpus = libraries_of(wheel, LibraryRole.NVIDIA), (a_gpu(capability),)

    assert not extension_without_code_for_gpu(device_code=code, gpus=gpus, kb=kb)
    assert not extension_partly_without_code(device_code=code, gpus=gpus, kb=kb)
