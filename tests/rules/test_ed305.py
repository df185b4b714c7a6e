from typing import Any

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.model.loading import LoadFailure, LoadWay
from envdoctor.rules.ed305_old_system_library import old_system_library
from tests.builders import (
    a_distribution,
    a_failed_load,
    a_failed_load_from_the_cache,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_version,
    a_torch,
    an_environment,
)

CONDA_LIBSTDCXX = a_loaded_library("/opt/env/lib/libstdc++.so.6", found_through="already loaded")
SYSTEM_LIBSTDCXX = a_loaded_library("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", found_through="ld.so.cache")
LIBC = a_loaded_library("/lib/x86_64-linux-gnu/libc.so.6", found_through="already loaded")


def judge(kb: KnowledgeBase, failure: LoadFailure, kind: str = "conda", **changes: Any) -> list[Finding]:
    return old_system_library(
        loader=a_loader(a_failed_load(failure, **changes), glibc="2.31"),
        torch=a_torch("2.7.1+cu126"),
        environment=an_environment(kind=kind),
        distributions=(a_distribution("mmcv", "2.1.0"),),
        kb=kb,
    )


def test_has_conda_renew_its_own_library(kb: KnowledgeBase) -> None:
    # https://github.com/sunset1995/DirectVoxGO/issues/19
    failure = a_missing_version("GLIBCXX_3.4.29", CONDA_LIBSTDCXX, holders=(SYSTEM_LIBSTDCXX.path,))
    [finding] = judge(kb, failure)

    assert finding.message == "mmcv 2.1.0 needs `GLIBCXX_3.4.29`; `libstdc++.so.6` is older"
    assert ("has it", SYSTEM_LIBSTDCXX.path) in [(one.source, one.value) for one in finding.evidence]
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "conda install --prefix /opt/env --channel conda-forge --update-deps libstdcxx-ng",
    )


def test_preloads_the_newer_one_where_the_system_has_the_older(kb: KnowledgeBase) -> None:
    failure = a_missing_version("GLIBCXX_3.4.30", SYSTEM_LIBSTDCXX, holders=(CONDA_LIBSTDCXX.path,))
    [finding] = judge(kb, failure)

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export LD_PRELOAD=/opt/env/lib/libstdc++.so.6",)


def test_asks_for_another_build_where_no_newer_one_is_there(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_version("CXXABI_1.3.15", SYSTEM_LIBSTDCXX), "venv")

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_glibc_is_not_replaced(kb: KnowledgeBase) -> None:
    # https://github.com/Dao-AILab/flash-attention/issues/1762
    [finding] = judge(kb, a_missing_version("GLIBC_2.32", LIBC), "venv", way=LoadWay.PERHAPS, import_chain=())

    assert finding.message == "mmcv 2.1.0 needs `GLIBC_2.32`; the glibc of this system is 2.31"
    assert finding.remedy is not None
    assert finding.remedy.summary.startswith("glibc cannot be replaced in place: take a system or container image with")
    assert "--no-binary mmcv mmcv==2.1.0" in finding.remedy.commands[0]


def test_is_silent_about_other_causes(kb: KnowledgeBase) -> None:
    assert not judge(kb, a_missing_library())
    assert not judge(kb, a_missing_version("OPENSSL_3.0.0", a_loaded_library("/usr/lib/libcrypto.so.3")))


def test_what_torch_compiled_itself_fails_whenever_it_is_compiled(kb: KnowledgeBase) -> None:
    # https://github.com/RenYurui/PIRender/issues/21
    failure = a_missing_version("GLIBCXX_3.4.29", CONDA_LIBSTDCXX, holders=(SYSTEM_LIBSTDCXX.path,))
    [finding] = old_system_library(
        loader=a_loader(a_failed_load_from_the_cache(failure)), environment=an_environment(kind="conda"), kb=kb
    )

    assert finding.message == (
        "what torch keeps compiled of `nvdiffrast_plugin` needs `GLIBCXX_3.4.29`; `libstdc++.so.6` is older"
    )
    assert ("imported by", "torch.utils.cpp_extension.load, which compiled it for this torch") in [
        (one.source, one.value) for one in finding.evidence
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "conda install --prefix /opt/env --channel conda-forge --update-deps libstdcxx-ng",
    )


def test_what_torch_compiled_for_a_newer_glibc_came_from_another_machine(kb: KnowledgeBase) -> None:
    failed = a_failed_load_from_the_cache(a_missing_version("GLIBC_2.32", LIBC))
    [finding] = old_system_library(loader=a_loader(failed, glibc="2.31"), kb=kb)

    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("rm -r /home/user/.cache/torch_extensions/")
