import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.model.loading import LoadFailure, LoadWay
from envdoctor.rules.ed310_unloadable_lazy_library import unloadable_lazy_library
from tests.builders import (
    SITE_PACKAGES,
    a_distribution,
    a_failed_load,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_torch,
)


def judge(
    kb: KnowledgeBase, failure: LoadFailure, provider: str = "cuda", torch: str = "2.3.0+cu121", cudnn: str = "8.9.2"
) -> list[Finding]:
    failed = a_failed_load(
        failure,
        library=f"{SITE_PACKAGES}/onnxruntime/capi/libonnxruntime_providers_{provider}.so",
        module="",
        distribution="onnxruntime-gpu",
        needs_torch=False,
        after_torch=False,
        way=LoadWay.LAZY,
        import_chain=(),
    )
    return unloadable_lazy_library(
        loader=a_loader(failed),
        torch=a_torch(torch, cudnn_version=cudnn),
        distributions=(a_distribution("onnxruntime-gpu", "1.17.0"),),
        kb=kb,
    )


def test_onnxruntime_for_another_cuda_computes_on_the_cpu(kb: KnowledgeBase) -> None:
    # https://github.com/stepfun-ai/Step-Audio-EditX/issues/3
    [finding] = judge(kb, a_missing_library("libcublasLt.so.11"))

    assert finding.message == (
        "onnxruntime-gpu 1.17.0 needs `libcublasLt.so.11` of CUDA, which is not there; it fails when first used"
    )
    assert "the session runs on the CPU" in " ".join(one.value for one in finding.evidence)
    assert finding.remedy is not None
    assert finding.remedy.summary == (
        "install a build of onnxruntime-gpu 1.17.0 for a CUDA whose libraries are there (torch has CUDA 12.1), "
        "or the libraries that it needs"
    )


def test_the_extras_of_a_package_bring_its_cuda(kb: KnowledgeBase) -> None:
    requires = ("numpy>=1.21", 'nvidia-cuda-runtime~=13.0; extra == "cuda"', 'nvidia-cudnn-cu13~=9.0; extra == "cudnn"')
    failed = a_failed_load(
        a_missing_library("libcublasLt.so.13"),
        library=f"{SITE_PACKAGES}/onnxruntime/capi/libonnxruntime_providers_cuda.so",
        module="",
        distribution="onnxruntime-gpu",
        needs_torch=False,
        after_torch=False,
        way=LoadWay.LAZY,
        import_chain=(),
    )
    distribution = a_distribution("onnxruntime-gpu", "1.31.1", requires=requires)
    [finding] = unloadable_lazy_library(loader=a_loader(failed), distributions=(distribution,), kb=kb)

    assert finding.remedy is not None
    assert finding.remedy.commands == ("python -m pip install 'onnxruntime-gpu[cuda,cudnn]==1.31.1'",)
    assert finding.remedy.summary.endswith("call `onnxruntime.preload_dlls()` before the first session")


@pytest.mark.parametrize(
    ("torch", "cudnn", "requirement"),
    [
        ("2.6.0+cu118", "9.1.0.70", ""),  # there is none for CUDA 11 and cuDNN 9
        ("2.3.0+cu118", "8.7.0.84", "'onnxruntime-gpu<1.19'"),
        ("2.8.0+cu128", "9.10.2.21", "'onnxruntime-gpu>=1.19,<1.27'"),
        ("2.14.1+cu130", "9.24.0.43", "'onnxruntime-gpu>=1.27'"),
    ],
)
def test_the_build_for_the_cuda_of_torch_can_be_pasted(
    torch: str, cudnn: str, requirement: str, kb: KnowledgeBase
) -> None:
    [finding] = judge(kb, a_missing_library("libcublasLt.so.99"), torch=torch, cudnn=cudnn)

    assert finding.remedy is not None
    assert finding.remedy.commands == ((f"python -m pip install {requirement}",) if requirement else ())


def test_is_silent_where_torch_brings_the_library_into_the_process(kb: KnowledgeBase) -> None:
    # https://github.com/microsoft/onnxruntime/issues/21684: it works after `import torch`
    there = f"{SITE_PACKAGES}/nvidia/cublas/lib/libcublasLt.so.12"

    assert not judge(kb, a_missing_library("libcublasLt.so.12", holders=(there,)))


def test_is_silent_about_providers_that_few_have(kb: KnowledgeBase) -> None:
    assert not judge(kb, a_missing_library("libnvinfer.so.8"), "tensorrt")


def test_is_silent_about_symbols_that_its_package_brings(kb: KnowledgeBase) -> None:
    assert not judge(kb, a_missing_symbol("Provider_GetHost"))
