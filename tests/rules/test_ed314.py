from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import SearchEntry
from envdoctor.model.finding import Finding
from envdoctor.model.loading import ForeignModule, LoadFailure, LoadWay
from envdoctor.rules.ed314_unproven_load_failure import unproven_load_failure
from tests.builders import (
    a_damaged_file,
    a_distribution,
    a_failed_load,
    a_failed_load_from_the_cache,
    a_foreign_module,
    a_loaded_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_missing_version,
    a_torch,
    an_environment,
)

CACHED_FOLDER = "/home/user/.cache/torch_extensions/py310_cu124/nvdiffrast_plugin"


def judge(kb: KnowledgeBase, failure: LoadFailure, **changes: Any) -> list[Finding]:
    failed = a_failed_load(failure, **{"way": LoadWay.PERHAPS, "import_chain": (), **changes})
    return unproven_load_failure(
        loader=a_loader(failed), torch=a_torch("1.11.0+cu115"), distributions=(a_distribution("mmcv", "1.7.2"),), kb=kb
    )


def test_a_cuda_that_is_nowhere_is_worth_a_warning(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_library("libcudart.so.10.2"))

    assert finding.message == (
        "mmcv 1.7.2 needs CUDA 10 (`libcudart.so.10.2`), which is not there; torch 1.11.0+cu115 has CUDA 11.5; "
        "nothing shows whether it is used"
    )


def test_so_is_a_file_that_is_cut_off(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_damaged_file(), needs_torch=False)

    assert finding.message.endswith("is cut off; nothing shows whether it is used")


@pytest.mark.parametrize(
    "failure",
    [
        a_missing_library("libmpi.so.40"),
        a_missing_library("libcudart.so.12", holders=("/x/libcudart.so.12",)),
        a_missing_symbol("registered_by_the_host_program"),
    ],
)
def test_is_silent_about_what_healthy_environments_have(kb: KnowledgeBase, failure: LoadFailure) -> None:
    assert not judge(kb, failure)


def test_is_silent_about_what_certainly_fails(kb: KnowledgeBase) -> None:
    old = a_loaded_library("/lib/libc.so.6")

    assert not judge(kb, a_missing_version("GLIBC_2.32", old))
    assert not judge(kb, a_missing_library(), way=LoadWay.WITH_PACKAGE)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (a_missing_symbol("_ZN3c1011CPUTensorIdEv"), "was built for another torch than torch 1.11.0+cu115"),
        (
            a_missing_symbol("curandCreateGenerator", holders=("/usr/local/cuda/lib64/libcurand.so.10",)),
            "needs `curandCreateGenerator`, and the library of NVIDIA that should have it does not",
        ),
    ],
)
def test_what_torch_keeps_may_be_left_from_another_time(kb: KnowledgeBase, failure: LoadFailure, says: str) -> None:
    # https://github.com/pytorch/pytorch/issues/68905
    [finding] = unproven_load_failure(
        loader=a_loader(a_failed_load_from_the_cache(failure)), torch=a_torch("1.11.0+cu115"), kb=kb
    )

    assert finding.message == (
        f"what torch keeps compiled of `nvdiffrast_plugin` {says}; nothing shows whether it is used"
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == (f"rm -r {CACHED_FOLDER}",)


# --- modules for another Python ----------------------------------------------------------------------------------


def judge_foreign(kb: KnowledgeBase, *modules: ForeignModule, **changes: Any) -> list[Finding]:
    return unproven_load_failure(
        loader=a_loader(),
        foreign_modules=modules,
        environment=an_environment(**changes),
        distributions=(a_distribution("mmcv", "1.7.2"),),
        kb=kb,
    )


UNSEEN = a_foreign_module(import_chain=(), has_siblings=False)


def test_a_package_without_any_module_for_this_python(kb: KnowledgeBase) -> None:
    other = a_foreign_module(module="mmcv._ops", library="/a/mmcv/_ops.so", import_chain=(), has_siblings=False)

    [finding] = judge_foreign(kb, UNSEEN, other)

    assert finding.message == "mmcv 1.7.2 was built for Python 3.8; Python 3.10 sees none of its compiled modules"
    assert finding.evidence[-1].value.startswith("ModuleNotFoundError: No module named 'mmcv._")
    assert finding.remedy


def test_the_machine_is_named_where_the_python_is_the_same(kb: KnowledgeBase) -> None:
    module = a_foreign_module(tag="cpython-310-aarch64-linux-gnu", import_chain=(), has_siblings=False)

    [finding] = judge_foreign(kb, module)

    assert "built for Python 3.10 on aarch64-linux-gnu;" in finding.message


@pytest.mark.parametrize(
    "module",
    [
        a_foreign_module(import_chain=(), has_siblings=True),  # Isaac Gym brings one for each of three Pythons
        a_foreign_module(has_siblings=False),  # certainly imported: ED309
        a_foreign_module(distribution="torch", import_chain=(), has_siblings=False),  # ED021
    ],
)
def test_other_rules_and_nobody_speak_of_the_rest(module: ForeignModule, kb: KnowledgeBase) -> None:
    assert judge_foreign(kb, module) == []


def test_what_pythonpath_brings_is_told_once(kb: KnowledgeBase) -> None:
    folder = UNSEEN.library.partition("/mmcv/")[0]

    assert judge_foreign(kb, UNSEEN, search_path=(SearchEntry(path=folder, origin="PYTHONPATH"),)) == []
