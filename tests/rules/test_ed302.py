from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.model.loading import FailedLoad, LoadWay
from envdoctor.rules.ed302_extension_for_another_torch import extension_for_another_torch
from tests.builders import (
    SITE_PACKAGES,
    a_distribution,
    a_failed_load,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_missing_version,
    a_torch,
    an_environment,
)


def judge(kb: KnowledgeBase, *failed: FailedLoad, torch: str = "1.8.1+cu102", **facts: Any) -> list[Finding]:
    return extension_for_another_torch(loader=a_loader(*failed), torch=a_torch(torch), kb=kb, **facts)


SCATTER = f"{SITE_PACKAGES}/torch_cluster/_version_cuda.so"
SUBTYPE = "_ZNK3c104Type14isSubtypeOfExtESt10shared_ptrIS0_EPSo"


def of(distribution: str, **changes: Any) -> FailedLoad:
    return a_failed_load(a_missing_symbol("_ZN2at4_ops5zeros4callEv"), distribution=distribution, **changes)


def test_fires_with_the_words_of_the_loader(kb: KnowledgeBase) -> None:
    # https://github.com/rusty1s/pytorch_cluster/issues/100
    failure = a_missing_symbol(SUBTYPE, file=SCATTER)
    failed = a_failed_load(failure, library=SCATTER, distribution="torch-cluster", way=LoadWay.PERHAPS, import_chain=())
    [finding] = judge(kb, failed, distributions=(a_distribution("torch-cluster", "1.5.9"),))

    assert finding.message == (
        "torch-cluster 1.5.9 was built for another torch than torch 1.8.1+cu102: what it lacks is of torch 1.3 to 1.7"
    )
    assert finding.evidence[0].source == "dynamic loader"
    assert finding.evidence[0].value == f"{SCATTER}: undefined symbol: {SUBTYPE}"
    assert finding.remedy is not None
    assert "torch 1.8.1+cu102 with CUDA 10.2" in finding.remedy.summary


def test_what_tells_the_same_torch_is_told_once(kb: KnowledgeBase) -> None:
    distribution = a_distribution("torchvision", "0.16.2", requires=("torch==2.1.2",))
    [finding] = judge(kb, of("torchvision"), distributions=(distribution,))

    assert [one.source for one in finding.evidence if one.value == "for torch 2.1.2"] == ["metadata of torchvision"]


def test_the_way_to_build_it_anew_can_be_pasted(kb: KnowledgeBase) -> None:
    [finding] = judge(
        kb, of("torch-cluster"), distributions=(a_distribution("torch-cluster", "1.5.9"),), environment=an_environment()
    )

    assert finding.remedy is not None
    [command] = finding.remedy.commands
    assert command == (
        "FORCE_CUDA=1 /opt/env/bin/python -m pip install --no-build-isolation --no-cache-dir --no-deps "
        "--force-reinstall --no-binary torch-cluster torch-cluster==1.5.9"
    )


def test_a_left_over_build_folder_goes_first(kb: KnowledgeBase) -> None:
    # https://github.com/tianzhi0549/FCOS/issues/160
    distribution = a_distribution("fcos", "0.1.9", editable_root="/home/user/FCOS")
    [finding] = judge(kb, of("fcos"), distributions=(distribution,))

    assert finding.remedy is not None
    assert finding.remedy.commands[0] == "rm -rf /home/user/FCOS/build"
    assert finding.remedy.commands[1].endswith("--editable /home/user/FCOS")


@pytest.mark.parametrize(
    ("name", "version", "origin"),
    [
        ("torch-scatter", "2.1.1+pt113cu117", "1.13"),
        ("flash-attn", "2.7.4+cu12torch2.6cxx11abiFALSE", "2.6"),
        ("torchvision", "0.16.2", "2.1.2"),
    ],
)
def test_names_the_torch_that_it_was_built_for(kb: KnowledgeBase, name: str, version: str, origin: str) -> None:
    [finding] = judge(
        kb, of(name, way=LoadWay.WITH_PACKAGE, library="/x/a.so"), distributions=(a_distribution(name, version),)
    )

    assert finding.message == f"{name} {version} was built for torch {origin}, and not for torch 1.8.1+cu102"


def test_the_pin_of_the_package_tells_too(kb: KnowledgeBase) -> None:
    distribution = a_distribution("ext", "1.0", requires=("torch==2.1.0", "numpy"))
    [finding] = judge(kb, of("ext"), distributions=(distribution,))

    assert "was built for torch 2.1.0, and not for torch 1.8.1+cu102" in finding.message


def test_a_pin_that_the_installed_torch_meets_explains_nothing(kb: KnowledgeBase) -> None:
    distribution = a_distribution("ext", "1.0", requires=("torch==1.8.1",))
    failed = a_failed_load(a_missing_symbol("_ZN2at10ownkindE"), distribution="ext")
    [finding] = judge(kb, failed, distributions=(distribution,))

    assert finding.message == "ext 1.0 was built for another torch than torch 1.8.1+cu102"


def test_torchvision_is_replaced_by_the_one_that_belongs_to_torch(kb: KnowledgeBase) -> None:
    failed = of("torchvision", library=f"{SITE_PACKAGES}/torchvision/_C.so")
    [finding] = judge(
        kb, failed, torch="2.14.1+cu130", distributions=(a_distribution("torchvision", "0.23.0"), a_distribution())
    )

    assert "torchvision 0.23.0 was built for torch 2.8.0" in finding.message
    assert ("what is seen instead", "RuntimeError: operator torchvision::nms does not exist") in [
        (one.source, one.value) for one in finding.evidence
    ]
    assert finding.remedy is not None
    assert "torchvision==0.29.1" in finding.remedy.commands[0]


def test_libraries_of_one_package_are_one_finding(kb: KnowledgeBase) -> None:
    failed = [of("torch-sparse", library=f"{SITE_PACKAGES}/torch_sparse/_{name}_cuda.so") for name in "abcde"]
    [finding] = judge(kb, *failed)

    assert "refuses 2 more libraries of it" in [one.value for one in finding.evidence]


def test_what_else_a_package_lacks_is_no_finding_of_its_own(kb: KnowledgeBase) -> None:
    missing = a_failed_load(a_missing_library(), library=f"{SITE_PACKAGES}/mmcv/_other.so")
    [finding] = judge(kb, of("mmcv"), missing)

    assert finding.evidence[1].source == "mmcv/_other.so"


def test_is_silent_about_other_causes(kb: KnowledgeBase) -> None:
    old = a_loaded_library("/lib/libc.so.6")
    others = (a_missing_library(), a_missing_symbol("x"), a_missing_version("GLIBC_2.32", old))

    assert not judge(kb, *(a_failed_load(failure) for failure in others))


def test_nothing_is_judged_where_nothing_was_asked(kb: KnowledgeBase) -> None:
    conclusions = [*extension_for_another_torch.check(loader=a_loader(asked=0), kb=kb)]

    assert [type(one) for one in conclusions] == [NotApplicable]


def test_symbols_are_written_as_people_write_them_and_counted(kb: KnowledgeBase) -> None:
    failure = a_missing_symbol(SUBTYPE, undefined=(SUBTYPE, "x", "y"), demangled=("c10::Type::isSubtypeOfExt() const",))
    [finding] = judge(kb, a_failed_load(failure))
    told = [(one.source, one.value) for one in finding.evidence]

    assert ("missing symbol", "c10::Type::isSubtypeOfExt() const") in told
    assert ("missing symbols", "3 of mmcv/_ext.cpython-310-x86_64-linux-gnu.so in all") in told


def test_a_torch_that_could_not_be_read_is_named_no_further(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_symbol("_ZN2at10ownkindE"), distribution="", library="/x/a.so")
    unread = a_distribution("torch", "2.1.0")
    [finding] = extension_for_another_torch(loader=a_loader(failed), kb=kb, distributions=(unread,))

    assert finding.message == "`/x/a.so` was built for another torch than the installed torch"
    assert finding.remedy is not None
    assert finding.remedy.summary == "build a.so anew against the installed torch"


def test_without_a_torch_none_is_called_the_wrong_one(kb: KnowledgeBase) -> None:
    """Up to torch 1.4 extensions were not linked to libraries of torch: what they lack are its symbols."""
    failed = a_failed_load(a_missing_symbol(SUBTYPE), distribution="DCNv2", needs_torch=False, after_torch=False)
    [finding] = extension_for_another_torch(
        loader=a_loader(failed), kb=kb, distributions=(a_distribution("DCNv2", "0.1"),)
    )

    assert finding.message == "DCNv2 0.1 needs torch 1.3 to 1.7, which is not installed"
    assert finding.remedy is not None
    assert finding.remedy.summary == "install the torch that DCNv2 0.1 was built for"
