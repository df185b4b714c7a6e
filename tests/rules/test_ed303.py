from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.rules.ed303_extension_for_other_abi import extension_for_other_abi
from tests.builders import SITE_PACKAGES, a_distribution, a_failed_load, a_loader, a_missing_symbol, a_torch

OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
LIBRARY = f"{SITE_PACKAGES}/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so"


def judge(kb: KnowledgeBase, asked: str, there: str, version: str, torch: str = "2.6.0+cu126") -> list[Finding]:
    failure = a_missing_symbol(
        asked, file=LIBRARY, other_abi=(there,), demangled=("c10::Error::Error(c10::SourceLocation, std::string)",)
    )
    failed = a_failed_load(failure, library=LIBRARY, distribution="flash-attn")
    facts: dict[str, Any] = {"distributions": (a_distribution("flash-attn", version),)}
    return extension_for_other_abi(loader=a_loader(failed), torch=a_torch(torch), kb=kb, **facts)


@pytest.mark.parametrize(
    ("asked", "there", "message"),
    [
        (OLD, NEW, "flash-attn 2.7.4.post1 was built for the old C++11 ABI, torch 2.6.0+cu126 has the new one"),
        (NEW, OLD, "flash-attn 2.7.4.post1 was built for the new C++11 ABI, torch 2.6.0+cu126 has the old one"),
    ],
)
def test_names_the_abi_and_not_the_version(kb: KnowledgeBase, asked: str, there: str, message: str) -> None:
    # https://github.com/Dao-AILab/flash-attention/issues/1644
    [finding] = judge(kb, asked, there, "2.7.4.post1")

    assert finding.message == message
    assert ("torch has instead", there) in [(one.source, one.value) for one in finding.evidence]
    assert finding.remedy is not None


def test_the_name_of_the_wheel_is_evidence(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, OLD, NEW, "2.7.4.post1+cu12torch2.6cxx11abiFALSE")

    assert "for the old C++11 ABI (cxx11abiFALSE)" in [one.value for one in finding.evidence]


def test_is_silent_where_the_function_is_there_in_no_abi(kb: KnowledgeBase) -> None:
    failed = a_failed_load(a_missing_symbol(OLD))

    assert not extension_for_other_abi(loader=a_loader(failed), torch=a_torch(), kb=kb)
