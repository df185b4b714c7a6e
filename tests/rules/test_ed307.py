import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.model.loading import Loader
from envdoctor.rules.ed307_overridden_library import overridden_library
from tests.builders import a_loaded_library, a_loader, a_missing_symbol, a_torch, an_overridden_library

CUDA_121 = "/usr/local/cuda-12.1/lib64"
CUBLAS = an_overridden_library("libcublasLt.so.12", "12.1.3.1", "12.4.5.8")


def judge(kb: KnowledgeBase, loader: Loader) -> list[Finding]:
    return overridden_library(loader=loader, torch=a_torch("2.5.1+cu124"), kb=kb)


def test_fires_where_another_version_happens_to_do(kb: KnowledgeBase) -> None:
    nvjitlink = an_overridden_library("libnvJitLink.so.12", "12.1.105", "12.4.127")
    loader = a_loader(overridden=(nvjitlink, CUBLAS), library_path=(CUDA_121, "/opt/lib"))
    [finding] = judge(kb, loader)

    assert finding.message == (
        "LD_LIBRARY_PATH brings other files for `libcublasLt.so.12` and `libnvJitLink.so.12` than the environment has"
    )
    assert finding.evidence[0].source == f"{CUDA_121}/libcublasLt.so.12"
    assert finding.evidence[0].value == f"12.1.3.1, in place of {CUBLAS.own} (12.4.5.8)"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("export LD_LIBRARY_PATH=/opt/lib",)


def test_a_preloaded_library_counts_too(kb: KnowledgeBase) -> None:
    taken = a_loaded_library("/opt/libcudart.so.12", found_through="LD_PRELOAD")
    [finding] = judge(kb, a_loader(overridden=(an_overridden_library("libcudart.so.12", "", "", taken=taken),)))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset LD_PRELOAD",)


@pytest.mark.parametrize(
    "library",
    [
        an_overridden_library("libcublasLt.so.12", "12.4.5.8", "12.4.5.8"),
        an_overridden_library("libcudart.so.12", "12.4.127", "12.4.127.1"),
        an_overridden_library("libcublasLt.so.12", "12.1.3.1", "12.4.5.8", same_content=True),
        an_overridden_library("libstdc++.so.6", "6.0.30", "6.0.29"),
        an_overridden_library(
            "libcublasLt.so.12",
            "12.1.3.1",
            "12.4.5.8",
            taken=a_loaded_library("/usr/lib/libcublasLt.so.12", found_through="ld.so.cache"),
        ),
    ],
    ids=["same version", "same version, longer", "same content", "C++ library", "not forced"],
)
def test_is_silent_where_nothing_is_at_risk(kb: KnowledgeBase, library: object) -> None:
    assert not overridden_library(loader=a_loader(overridden=(library,)), kb=kb)


def test_is_silent_about_what_another_rule_blames(kb: KnowledgeBase) -> None:
    failure = a_missing_symbol("cublasLtGetStatusString", provider=CUBLAS.taken, holders=(CUBLAS.own,))
    old_cudnn = an_overridden_library("libcudnn.so.8", "8.2.4", "8.7.0")

    assert not judge(kb, a_loader(torch=failure, overridden=(CUBLAS,)))
    assert not judge(kb, a_loader(overridden=(old_cudnn,)))
