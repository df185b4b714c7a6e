from dataclasses import replace
from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.model.loading import Loader
from envdoctor.rules.ed306_breaking_library_path import breaking_library_path
from tests.builders import (
    SITE_PACKAGES,
    a_failed_load,
    a_loaded_library,
    a_loader,
    a_missing_symbol,
    a_missing_version,
    a_torch,
    an_overridden_library,
)

CUDA_121 = "/usr/local/cuda-12.1/lib64"
NVJITLINK = an_overridden_library("libnvJitLink.so.12", "12.1.105", "12.4.127")
NOT_IN_121 = a_missing_symbol(
    "__nvJitLinkComplete_12_4",
    file=f"{SITE_PACKAGES}/nvidia/cusparse/lib/libcusparse.so.12",
    symbol_version="libnvJitLink.so.12",
    provider=NVJITLINK.taken,
    holders=(NVJITLINK.own,),
)


def judge(kb: KnowledgeBase, loader: Loader, torch: str = "2.5.1+cu124", **changes: Any) -> list[Finding]:
    return breaking_library_path(loader=loader, torch=a_torch(torch, **changes), kb=kb)


def test_names_the_file_that_wins_and_the_right_one(kb: KnowledgeBase) -> None:
    # https://github.com/pytorch/pytorch/issues/144244
    [finding] = judge(kb, a_loader(torch=NOT_IN_121, overridden=(NVJITLINK,), library_path=(CUDA_121,)))

    assert finding.message == "torch 2.5.1+cu124 cannot be loaded: LD_LIBRARY_PATH brings another `libnvJitLink.so.12`"
    assert [(one.source, one.value) for one in finding.evidence] == [
        ("import torch", NOT_IN_121.words),
        ("taken through LD_LIBRARY_PATH", f"{CUDA_121}/libnvJitLink.so.12"),
        ("would have been right", NVJITLINK.own),
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset LD_LIBRARY_PATH",)


def test_folders_are_named_without_a_slash_at_the_end_and_files_by_their_name(kb: KnowledgeBase) -> None:
    taken = replace(NVJITLINK.taken, name=f"{CUDA_121}/libnvJitLink.so.12", folder=f"{CUDA_121}/")
    overridden = replace(NVJITLINK, taken=taken)
    [finding] = judge(kb, a_loader(torch=NOT_IN_121, overridden=(overridden,), library_path=(CUDA_121,)))

    assert finding.message.endswith("brings another `libnvJitLink.so.12`")
    assert finding.remedy is not None
    assert finding.remedy.summary.startswith(f"take {CUDA_121} off LD_LIBRARY_PATH")


def test_keeps_what_else_is_on_the_path(kb: KnowledgeBase) -> None:
    path = ("/usr/local/nvidia/lib64", f"{CUDA_121}/", "/opt/my libs")
    [finding] = judge(kb, a_loader(torch=NOT_IN_121, overridden=(NVJITLINK,), library_path=path))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export LD_LIBRARY_PATH='/usr/local/nvidia/lib64:/opt/my libs'",)


def test_extensions_break_as_well(kb: KnowledgeBase) -> None:
    nccl = an_overridden_library("libnccl.so.2", "2.16.2", "2.19.3")
    failed = a_failed_load(a_missing_symbol("ncclCommRegister", holders=(nccl.own,)))
    [finding] = judge(kb, a_loader(failed, overridden=(nccl,), library_path=(CUDA_121,)))

    assert finding.message == "mmcv cannot be loaded: LD_LIBRARY_PATH brings another `libnccl.so.2`"


def test_a_preloaded_library_is_not_to_be_preloaded(kb: KnowledgeBase) -> None:
    old = a_loaded_library("/opt/old/libstdc++.so.6", found_through="LD_PRELOAD")
    failed = a_failed_load(a_missing_version("GLIBCXX_3.4.29", old, holders=("/usr/lib/libstdc++.so.6",)))
    [finding] = judge(kb, a_loader(failed, preload=(old.path,)))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset LD_PRELOAD",)


def test_a_library_that_the_cache_brings_is_put_behind_the_right_one(kb: KnowledgeBase) -> None:
    # https://github.com/pytorch/pytorch/issues/87279: the system's libstdc++ in place of conda's
    system = a_loaded_library("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", found_through="ld.so.cache")
    conda = an_overridden_library("libstdc++.so.6", "6.0.28", "6.0.30", taken=system, own="/opt/env/lib/libstdc++.so.6")
    failure = a_missing_version("GLIBCXX_3.4.30", system, holders=(conda.own,))
    [finding] = judge(kb, a_loader(torch=failure, overridden=(conda,)))

    assert finding.message == "torch 2.5.1+cu124 cannot be loaded: ld.so.cache brings another `libstdc++.so.6`"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("export LD_PRELOAD=/opt/env/lib/libstdc++.so.6",)


@pytest.mark.parametrize(
    ("runtime", "compiled"), [("8.2.4", "8.7.0"), ("8.0.3", "8.3.2"), ("8.9.7", "9.1.0"), ("9.1.0", "8.9.2")]
)
def test_cudnn_that_torch_refuses_is_an_error(kb: KnowledgeBase, runtime: str, compiled: str) -> None:
    # https://github.com/bmaltais/kohya_ss/issues/1096, https://github.com/pytorch/pytorch/issues/80637
    cudnn = an_overridden_library("libcudnn.so.8", runtime, compiled)
    [finding] = judge(kb, a_loader(overridden=(cudnn,), library_path=(CUDA_121,)))

    assert finding.message == (
        f"LD_LIBRARY_PATH brings cuDNN {runtime}, and torch, compiled with {compiled}, refuses it"
    )


def test_torch_tells_best_what_it_was_compiled_with(kb: KnowledgeBase) -> None:
    cudnn = an_overridden_library("libcudnn.so.8", "8.5.0", "8.9.2.26")

    assert not judge(kb, a_loader(overridden=(cudnn,)), cudnn_version="8.5.0")
    assert judge(kb, a_loader(overridden=(cudnn,)), cudnn_version="8.9.2")


def test_a_major_version_of_cudnn_is_not_all_that_is_known(kb: KnowledgeBase) -> None:
    """The file in torch/lib is called libcudnn.so.8, and that is all that its name tells."""
    cudnn = an_overridden_library("libcudnn.so.8", "8.2.4", "8.7.0")
    [finding] = judge(kb, a_loader(overridden=(cudnn,)), cudnn_version="8")

    assert finding.message == "LD_LIBRARY_PATH brings cuDNN 8.2.4, and torch, compiled with 8.7.0, refuses it"


@pytest.mark.parametrize(("runtime", "compiled"), [("8.9.7", "8.7.0"), ("8.7.1", "8.7.3"), ("", "8.7.0"), ("8.2", "")])
def test_cudnn_that_torch_takes_or_that_does_not_tell_is_no_error(
    kb: KnowledgeBase, runtime: str, compiled: str
) -> None:
    cudnn = an_overridden_library("libcudnn.so.8", runtime, compiled)

    assert not judge(kb, a_loader(overridden=(cudnn,)))


def test_is_silent_where_the_file_that_wins_does(kb: KnowledgeBase) -> None:
    assert not judge(kb, a_loader(overridden=(NVJITLINK,)))


def test_is_silent_where_the_own_file_would_not_help_either(kb: KnowledgeBase) -> None:
    failure = a_missing_symbol("__nvJitLinkComplete_12_8", provider=NVJITLINK.taken)

    assert not judge(kb, a_loader(torch=failure, overridden=(NVJITLINK,)))
