"""Names of C++ symbols as people write them; the mangled ones are from real libraries."""

import subprocess
import sys

import pytest

from envdoctor.probes.demangling import demangle, demangle_all, without_abi


@pytest.mark.parametrize(
    ("mangled", "written"),
    [
        ("_ZNK3c105Error4whatEv", "c10::Error::what() const"),
        ("_ZN3c104cuda14ExchangeDeviceEa", "c10::cuda::ExchangeDevice(signed char)"),
        (
            "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
            "c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::string const&)",
        ),
        (
            "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::string const&)",
        ),
        ("_ZNK5torch8autograd4Node4nameB5cxx11Ev", "torch::autograd::Node::name[abi:cxx11]() const"),
        ("_Z1fSt6vectorIS_IiSaIiEESaIS1_EE", "f(std::vector<std::vector<int>>)"),
        ("_Z1fSt6vectorISsSaISsEEi", "f(std::vector<std::string>, int)"),
        ("_Z1fiRKSaIcE", "f(int, std::allocator<char> const&)"),
        ("_ZTIN3c105ErrorE", "typeinfo for c10::Error"),
    ],
)
def test_a_name_is_written_as_in_cxx(mangled: str, written: str) -> None:
    assert demangle(mangled) == written


@pytest.mark.parametrize("name", ["cudaGetDeviceCount", "", "_Znonsense", "_ZN3c10", "_Z" + "3abc" * 5000, "_Zé"])
def test_what_is_no_cxx_name_stays(name: str) -> None:
    assert demangle(name) == name


def test_names_of_c_need_no_second_form() -> None:
    assert demangle_all(["cudaFree", "PyList_New"]) == ()
    assert demangle_all(["cudaFree", "_ZNK3c105Error4whatEv"]) == ("cudaFree", "c10::Error::what() const")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "_ZN3c105ErrorC1ENS_14SourceLocationESs",
            "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        ),
        ("_ZNK5torch8autograd4Node4nameEv", "_ZNK5torch8autograd4Node4nameB5cxx11Ev"),
        ("_Z1fSt4listIiSaIiEE", "_Z1fNSt7__cxx114listIiSaIiEEE"),
        ("_Z1fRKSsS0_", "_Z1fRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES6_"),
    ],
)
def test_names_of_both_abis_are_one(old: str, new: str) -> None:
    assert without_abi(old) == without_abi(new)


def test_names_that_differ_in_more_than_the_abi_are_two() -> None:
    assert without_abi("_Z1fRKSs") != without_abi("_Z1fSs")


def test_names_stay_where_there_is_no_demangler() -> None:
    program = """
import ctypes
def refuse(*_):
    raise OSError
ctypes.CDLL = refuse
from envdoctor.probes.demangling import demangle
print(demangle("_ZNK3c105Error4whatEv"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "_ZNK3c105Error4whatEv\n"
