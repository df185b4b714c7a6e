import shlex
from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, LibraryRole, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed204_extension_without_code_for_gpu import extension_without_code_for_gpu
from tests.builders import (
    SITE_PACKAGES,
    a_container,
    a_distribution,
    a_driver,
    a_gpu,
    a_library,
    a_named_gpu,
    a_torch,
    a_torch_library,
    an_environment,
    variables,
)

BLACKWELL = a_gpu("12.0", name="NVIDIA GeForce RTX 5090")
TORCH_2_7 = a_torch("2.7.1+cu128", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")


def a_library_of(distribution: str, path: str, *containers: str, **changes: Any) -> DeviceCode:
    return a_library(*containers, library=f"{SITE_PACKAGES}/{path}", distribution=distribution, **changes)


@pytest.mark.parametrize(
    ("arch_list", "capability"),
    [
        ("sm_80 sm_86 sm_90", "12.0"),  # https://github.com/nerfstudio-project/gsplat/issues/1053: torch itself is fine
        ("sm_75", "8.6"),  # built with TORCH_CUDA_ARCH_LIST=7.5 for a 3090
        ("sm_86", "8.0"),
        ("sm_90a", "12.0"),
        ("sm_70 compute_90", "8.9"),
    ],
)
def test_fires_when_no_container_runs(arch_list: str, capability: str, kb: KnowledgeBase) -> None:
    [finding] = extension_without_code_for_gpu(device_code=(a_library(arch_list),), gpus=(a_gpu(capability),), kb=kb)

    assert finding.message == "mmcv has no code for GPU 0 (NVIDIA GeForce RTX 4090): its kernels fail there"
    assert finding.evidence[1].source == "mmcv/_ext.cpython-310-x86_64-linux-gnu.so"
    assert finding.evidence[1].value == f"1 kernel container: {arch_list}"


@pytest.mark.parametrize(
    ("arch_list", "capability"),
    [
        ("sm_80", "8.9"),
        ("sm_52 compute_52", "8.9"),  # through PTX: ED205
        ("sm_90a sm_80", "8.6"),
        ("sm_100f", "10.3"),
    ],
)
def test_is_silent_when_a_container_runs(arch_list: str, capability: str, kb: KnowledgeBase) -> None:
    assert not extension_without_code_for_gpu(
        device_code=(a_library(arch_list, "sm_37"),), gpus=(a_gpu(capability),), kb=kb
    )


def test_leaves_torch_nvidia_and_the_cache_to_other_rules(kb: KnowledgeBase) -> None:
    code = (
        a_torch_library("sm_37"),
        a_library("sm_37", role=LibraryRole.NVIDIA),
        a_library("sm_37", role=LibraryRole.JIT),
        a_library(has_hip_code=True),
    )

    assert not extension_without_code_for_gpu(device_code=code, gpus=(a_gpu(),), kb=kb)


def test_judges_a_distribution_by_the_best_of_its_libraries(kb: KnowledgeBase) -> None:
    # xformers 0.0.29.post3: FlashAttention 3 is for Hopper and not asked for elsewhere.
    code = (
        a_library_of("xformers", "xformers/_C.so", "sm_60 sm_70 sm_75 sm_80 sm_90a compute_60 compute_80"),
        a_library_of("xformers", "xformers/_C_flashattention3.so", "sm_90a"),
    )

    assert not extension_without_code_for_gpu(device_code=code, gpus=(a_gpu("8.9"),), kb=kb)


def test_a_library_that_is_named_for_another_gpu_is_not_missed(kb: KnowledgeBase) -> None:
    # torchao 0.18.0: everything else runs on any GPU; nothing but the kernels for Hopper is compiled.
    hopper = a_library_of("torchao", "torchao/_C_cutlass_90a.abi3.so", "sm_90a")
    other = a_library_of("deep-kernels", "deep_kernels/_C.abi3.so", "sm_90a")

    assert not extension_without_code_for_gpu(device_code=(hopper,), gpus=(a_gpu("8.9"),), kb=kb)
    assert extension_without_code_for_gpu(device_code=(other,), gpus=(a_gpu("8.9"),), kb=kb)


BITSANDBYTES = tuple(  # 0.45.5
    a_library_of("bitsandbytes", f"bitsandbytes/libbitsandbytes_cuda{version}.so", arch_list)
    for version, arch_list in [
        ("118", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90"),
        ("126", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90"),
        ("128", "sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120"),
    ]
)


@pytest.mark.parametrize(
    ("torch", "fires"),
    [
        ("2.7.1+cu128", False),
        ("2.7.1+cu126", True),
        ("2.7.1+cu118", True),
        ("2.9.0+cu130", False),  # no library for it: which one serves is not told
    ],
)
def test_judges_the_variant_that_is_loaded_for_the_cuda_of_torch(torch: str, fires: bool, kb: KnowledgeBase) -> None:
    findings = extension_without_code_for_gpu(
        device_code=BITSANDBYTES, gpus=(BLACKWELL,), torch=a_torch(torch, "sm_120"), kb=kb
    )

    assert bool(findings) is fires


@pytest.mark.parametrize(("version", "fires"), [("0.45.5", False), ("0.50.0", True)])
def test_judges_the_variant_that_takes_the_place_of_another(version: str, fires: bool, kb: KnowledgeBase) -> None:
    """From 0.50 on that for 12.6 is loaded beside CUDA 12.7; before, none is, and ED216 says so."""
    findings = extension_without_code_for_gpu(
        device_code=BITSANDBYTES,
        gpus=(BLACKWELL,),
        torch=a_torch("2.7.1+cu127", "sm_120"),
        distributions=(a_distribution("bitsandbytes", version),),
        kb=kb,
    )

    assert bool(findings) is fires


def test_judges_the_variant_that_a_variable_names(kb: KnowledgeBase) -> None:
    [finding] = extension_without_code_for_gpu(
        device_code=BITSANDBYTES,
        gpus=(BLACKWELL,),
        torch=TORCH_2_7,
        distributions=(a_distribution("bitsandbytes", "0.45.5"),),
        variables=variables(BNB_CUDA_VERSION="126"),
        kb=kb,
    )

    assert [one.value for one in finding.evidence if one.source == "environment"] == ["BNB_CUDA_VERSION=126"]
    assert finding.remedy is not None
    assert "bitsandbytes then loads bitsandbytes/libbitsandbytes_cuda128.so" in finding.remedy.summary
    assert finding.remedy.commands == ("unset BNB_CUDA_VERSION",)


def test_names_the_variant_that_another_torch_would_load(kb: KnowledgeBase) -> None:
    [finding] = extension_without_code_for_gpu(
        device_code=BITSANDBYTES, gpus=(a_gpu("6.1"),), torch=a_torch("2.7.1+cu128"), kb=kb
    )

    assert finding.remedy is not None
    assert finding.remedy.summary == (
        "use torch for another CUDA version: bitsandbytes/libbitsandbytes_cuda118.so, which bitsandbytes then loads, "
        "has such code"
    )


def test_counts_the_variants_with_and_without_cublaslt_as_one(kb: KnowledgeBase) -> None:
    # bitsandbytes 0.35.4 on a V100 loads the second.
    code = (
        a_library_of("bitsandbytes", "bitsandbytes/libbitsandbytes_cuda118.so", "sm_75 sm_80 sm_86"),
        a_library_of("bitsandbytes", "bitsandbytes/libbitsandbytes_cuda118_nocublaslt.so", "sm_70 sm_75"),
    )

    assert not extension_without_code_for_gpu(
        device_code=code, gpus=(a_gpu("7.0"),), torch=a_torch("2.0.1+cu118"), kb=kb
    )


def test_counts_relocatable_ptx_that_the_driver_links_anew(kb: KnowledgeBase) -> None:
    # bitsandbytes 0.45.5 for CUDA 12.6: PTX is only in __nv_relfatbin.
    library = a_library("sm_80 sm_90", a_container("sm_80 sm_90 compute_90", count=2, relocatable=True))

    assert not extension_without_code_for_gpu(device_code=(library,), gpus=(BLACKWELL,), kb=kb)


@pytest.mark.parametrize(("driver", "fires"), [("550.54.15", True), ("570.86.10", False)])
def test_counts_ptx_only_if_the_driver_compiles_it(driver: str, fires: bool, kb: KnowledgeBase) -> None:
    library = a_library(a_container("sm_80 compute_90", ptx_isa="8.5"))  # CUDA 12.6
    findings = extension_without_code_for_gpu(device_code=(library,), gpus=(BLACKWELL,), driver=a_driver(driver), kb=kb)

    assert bool(findings) is fires
    assert all(finding.evidence[-1].source == "driver" for finding in findings)


def test_tells_ptx_that_is_too_new_from_no_code(kb: KnowledgeBase) -> None:
    library = a_library(a_container("sm_80 compute_90", ptx_isa="8.5"))
    [finding] = extension_without_code_for_gpu(device_code=(library,), gpus=(BLACKWELL,), driver=a_driver(), kb=kb)

    assert finding.message == (
        "mmcv has only PTX for GPU 0 (NVIDIA GeForce RTX 5090), too new for the driver: its kernels fail there"
    )


def test_says_nothing_of_ptx_under_a_driver_that_torch_cannot_use_either(kb: KnowledgeBase) -> None:
    """https://github.com/daniilidis-group/neural_renderer/issues/121: the driver comes first (ED101)."""
    library = a_library(a_container("sm_52 compute_52", ptx_isa="6.5"))
    old = a_driver("418.87.00")
    torch = a_torch("1.7.1+cu102", "sm_37 sm_50 sm_60 sm_70")

    assert not extension_without_code_for_gpu(
        device_code=(library,), gpus=(a_gpu("6.1"),), torch=torch, driver=old, kb=kb
    )


def test_lists_the_first_libraries_of_many(kb: KnowledgeBase) -> None:
    code = tuple(a_library_of("apex", f"module_{number}.so", "sm_70") for number in "abcdefg")
    [finding] = extension_without_code_for_gpu(device_code=code, gpus=(a_gpu(),), kb=kb)

    assert len(finding.evidence) == 6
    assert finding.evidence[-1].value == "likewise in 3 more libraries"


def test_names_the_folder_of_libraries_that_no_distribution_owns(kb: KnowledgeBase) -> None:
    loose = a_library("sm_70", library="/home/user/gaussian/simple_knn/_C.so", distribution="")
    [finding] = extension_without_code_for_gpu(device_code=(loose,), gpus=(a_gpu(),), kb=kb)

    assert finding.message.startswith("/home/user/gaussian/simple_knn has no code")


def test_leaves_open_what_cannot_be_read(kb: KnowledgeBase) -> None:
    library = a_library("sm_70", unreadable="truncated at 0x8000")
    [undecided] = extension_without_code_for_gpu.check(device_code=(library,), gpus=(a_gpu(),), kb=kb)

    assert undecided == Undecided(
        "whether mmcv has code: mmcv/_ext.cpython-310-x86_64-linux-gnu.so: truncated at 0x8000",
        (0,),
    )


def test_does_not_mind_an_unreadable_library_beside_one_that_serves(kb: KnowledgeBase) -> None:
    code = (a_library("sm_80"), a_library(library="/elsewhere/broken.so", unreadable="not an ELF file"))

    assert list(extension_without_code_for_gpu.check(device_code=code, gpus=(a_gpu(),), kb=kb)) == []


def test_leaves_packages_for_newer_gpus_to_another_rule(kb: KnowledgeBase) -> None:
    flash = a_library_of("flash-attn", "flash_attn_2_cuda.so", "sm_80 sm_90")

    assert not extension_without_code_for_gpu(
        device_code=(flash,), gpus=(a_gpu("7.5"),), distributions=(a_distribution("flash-attn", "2.6.3"),), kb=kb
    )


def test_leaves_torchvision_to_the_rule_about_torch(kb: KnowledgeBase) -> None:
    vision = a_library_of("torchvision", "torchvision/_C.so", "sm_70 sm_75")
    old, new = a_torch("1.10.2+cu102", "sm_37 sm_50 sm_60 sm_70"), a_torch("1.13.1+cu117", "sm_80 sm_86")

    assert not extension_without_code_for_gpu(device_code=(vision,), gpus=(a_gpu("8.9"),), torch=old, kb=kb)
    assert extension_without_code_for_gpu(device_code=(vision,), gpus=(a_gpu("8.9"),), torch=new, kb=kb)


def test_gives_a_verdict_to_each_named_card(kb: KnowledgeBase) -> None:
    gpus = (a_named_gpu("8.9"), a_named_gpu("12.0", index=1, name="NVIDIA GeForce RTX 5090", source="--gpu 5090"))
    [finding] = extension_without_code_for_gpu(device_code=(a_library("sm_86"),), gpus=gpus, kb=kb)

    assert finding.gpus == (1,)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    assert list(extension_without_code_for_gpu.check(device_code=(a_library("sm_70"),), gpus=(), kb=kb)) == [
        NotApplicable("no GPU is visible")
    ]


MMCV = a_library("sm_70", needed=("libc10.so", "libtorch_cuda.so", "libcudart.so.12"))


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({}, "--no-binary mmcv mmcv==2.1.0"),
        ({"editable_root": "/home/user/my mmcv"}, "--editable '/home/user/my mmcv'"),
        (
            {"direct_url": "git+https://github.com/open-mmlab/mmcv@4e8ad8c"},
            "git+https://github.com/open-mmlab/mmcv@4e8ad8c",
        ),
    ],
)
def test_offers_to_build_what_is_compiled_against_torch(
    changes: dict[str, Any], source: str, kb: KnowledgeBase
) -> None:
    [finding] = extension_without_code_for_gpu(
        device_code=(MMCV,),
        gpus=(BLACKWELL,),
        torch=TORCH_2_7,
        environment=an_environment(),
        distributions=(a_distribution("mmcv", "2.1.0", **changes),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands[0] == (
        "FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=12.0 /opt/env/bin/python -m pip install "
        f"--no-build-isolation --no-cache-dir --no-deps --force-reinstall {source}"
    )


def test_builds_for_the_architectures_that_torch_itself_has(kb: KnowledgeBase) -> None:
    # The nvcc of torch 1.13.1's CUDA 11.7 does not know 8.9; code for 8.6 runs there.
    [finding] = extension_without_code_for_gpu(
        device_code=(MMCV,),
        gpus=(a_gpu("8.9"), a_gpu("8.0", index=1, name="NVIDIA A100-SXM4-40GB")),
        torch=a_torch("1.13.1+cu117", "sm_70 sm_80 sm_86"),
        distributions=(a_distribution("mmcv", "1.7.0"),),
        kb=kb,
    )[:1]

    assert finding.remedy is not None
    assert "build mmcv for 8.9 and 8.0 (code for 8.0 and 8.6 runs there)" in finding.remedy.summary
    assert "TORCH_CUDA_ARCH_LIST='8.0;8.6'" in finding.remedy.commands[0]
    assert shlex.split(finding.remedy.commands[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "2.1.0+cu121"},  # a wheel of another index
        {"direct_url": "file:///wheels/mmcv-2.1.0-cp310-cp310-linux_x86_64.whl"},
        {"installer": "conda"},
        {"name": "another"},
    ],
)
def test_offers_no_command_where_the_source_is_not_known(changes: dict[str, str], kb: KnowledgeBase) -> None:
    [finding] = extension_without_code_for_gpu(
        device_code=(MMCV,),
        gpus=(BLACKWELL,),
        torch=TORCH_2_7,
        distributions=(a_distribution(**({"name": "mmcv", "version": "2.1.0"} | changes)),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


@pytest.mark.parametrize("name", ["flash-attn", "apex", "vllm"])
def test_offers_no_command_that_would_build_the_same_again(name: str, kb: KnowledgeBase) -> None:
    library = a_library_of(name, f"{name}/_C.so", "sm_80 sm_90", needed=("libc10.so",))
    [finding] = extension_without_code_for_gpu(
        device_code=(library,),
        gpus=(BLACKWELL,),
        torch=TORCH_2_7,
        distributions=(a_distribution(name, "0.1"),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert f"install a release or a build of {name} that has code for 12.0: " in finding.remedy.summary
    assert finding.remedy.commands == ()


def test_offers_no_command_for_an_interpreter_that_is_not_here(kb: KnowledgeBase) -> None:
    [finding] = extension_without_code_for_gpu(
        device_code=(MMCV,),
        gpus=(BLACKWELL,),
        torch=TORCH_2_7,
        environment=an_environment(interpreter=Unavailable("not here")),
        distributions=(a_distribution("mmcv", "2.1.0"),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_offers_a_newer_release_of_what_is_not_compiled_against_torch(kb: KnowledgeBase) -> None:
    faiss = a_library_of("faiss-gpu-cu12", "faiss/_swigfaiss.so", "sm_70 sm_80", needed=("libcudart.so.12",))
    [finding] = extension_without_code_for_gpu(device_code=(faiss,), gpus=(BLACKWELL,), torch=TORCH_2_7, kb=kb)

    assert finding.remedy is not None
    assert finding.remedy.summary == "install a release of faiss-gpu-cu12 that was built for 12.0"


def test_leaves_open_whether_orin_runs_other_code_with_newer_cuda(kb: KnowledgeBase) -> None:
    code, gpus = (a_library("sm_80 sm_86"),), (a_named_gpu("8.7"),)

    assert extension_without_code_for_gpu(device_code=code, gpus=gpus, kb=kb, torch=a_torch("2.14.1+cu130"))
    [undecided] = extension_without_code_for_gpu.check(
        device_code=code, gpus=gpus, kb=kb, torch=a_torch("2.15.0+cu132")
    )
    assert isinstance(undecided, Undecided)
