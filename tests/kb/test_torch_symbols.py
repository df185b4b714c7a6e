"""The releases of torch that a compiled extension was built for, told by the symbols that it asks for."""

import random
from collections import Counter

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_symbols import either_abi, is_torch_symbol, names_cxx11_strings
from tools.refresh_torch_symbols import AskingLibrary, read_asked

# Of real wheels: fixtures/torch_symbols/SOURCES.md.
ASKED = read_asked()
KNOWN = [row for row in ASKED if row.built_for]

# What people search for most often.
EXCHANGE_DEVICE = "_ZN3c104cuda14ExchangeDeviceEa"
OLD_ERROR = "_ZN3c105ErrorC1ENS_14SourceLocationERKSs"
NEW_ERROR = "_ZN3c105ErrorC1ENS_14SourceLocationERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def minor(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")[:2]))


def a_name(row: AskingLibrary) -> str:
    return f"{row.wheel}: {row.library}"


def test_the_release_that_a_library_was_built_for_lies_in_the_answer(kb: KnowledgeBase) -> None:
    answers = [(row, kb.find_torch_releases(row.symbols)) for row in KNOWN]

    wrong = [
        f"{a_name(row)} is for {row.built_for}, not {answer}"
        for row, answer in answers
        if answer is None
        or (answer.first and minor(row.built_for) < minor(answer.first))
        or (answer.last and minor(row.built_for) > minor(answer.last))
    ]
    assert wrong == []
    assert len(KNOWN) > 200


def test_most_answers_name_one_release_or_two(kb: KnowledgeBase) -> None:
    """Libraries that use torch for little more than registering an operator fit many releases."""
    answers = [answer for row in KNOWN if (answer := kb.find_torch_releases(row.symbols))]
    minors = [minor(row.version) for row in kb.torch_releases.values()]
    widths = Counter(
        len({found for found in minors if minor(answer.first or "0") <= found <= minor(answer.last or "9")})
        for answer in answers
    )

    assert widths[1] + widths[2] > len(answers) / 2


@pytest.mark.parametrize(
    ("wheel", "library", "releases"),
    [
        ("torchvision-0.16.2-", "torchvision/_C.so", "2.1"),
        ("torchvision-0.23.0-", "torchvision/_C.so", "2.8 to 2.9"),
        ("xformers-0.0.20-", "xformers/_C.so", "2.0"),
        ("xformers-0.0.28-", "xformers/_C.so", "2.4 to 2.5"),
        ("autoawq_kernels-0.0.9-", "awq_ext.cpython-311-x86_64-linux-gnu.so", "2.4 to 2.7"),
        ("dgl-1.1.3-", "dgl/tensoradapter/pytorch/libtensoradapter_pytorch_1.13.1.so", "1.8 or newer"),
    ],
)
def test_real_extensions(wheel: str, library: str, releases: str, kb: KnowledgeBase) -> None:
    [row] = [row for row in ASKED if row.wheel.startswith(wheel) and row.library == library]

    assert str(kb.find_torch_releases(row.symbols)) == releases


def test_one_missing_symbol_bounds_the_releases_on_one_side(kb: KnowledgeBase) -> None:
    answer = kb.find_torch_releases([EXCHANGE_DEVICE, "cudaLaunchKernel", "_ZN5mmcv5helloEv"])

    assert answer
    assert (str(answer), answer.first_by, answer.last_by) == ("2.3 or newer", (EXCHANGE_DEVICE,), ())


@pytest.mark.parametrize("symbols", [(), ("PyErr_Format", "_ZNSt6vectorIiSaIiEE9push_backEOi", ""), ("_Z",)])
def test_what_the_table_does_not_have_tells_nothing(symbols: tuple[str, ...], kb: KnowledgeBase) -> None:
    assert kb.find_torch_releases(symbols) is None


def test_symbols_that_no_release_has_together_tell_nothing(kb: KnowledgeBase) -> None:
    [old] = [row for row in ASKED if row.wheel.startswith("torchvision-0.9.1-") and row.library.endswith("_C.so")]
    [new] = [row for row in ASKED if row.wheel.startswith("torchvision-0.23.0-") and row.library.endswith("_C.so")]

    assert kb.find_torch_releases(old.symbols)
    assert kb.find_torch_releases((*old.symbols, *new.symbols)) is None


def test_the_order_of_symbols_does_not_matter(kb: KnowledgeBase) -> None:
    for row in KNOWN[::20]:
        shuffled = random.Random(0).sample(row.symbols, len(row.symbols))
        first, second = kb.find_torch_releases(row.symbols), kb.find_torch_releases(shuffled)

        assert first
        assert second
        assert str(first) == str(second)
        assert set(first.first_by) == set(second.first_by)


def test_both_abis_of_std_string_have_the_same_releases(kb: KnowledgeBase) -> None:
    old, new = kb.find_torch_releases([OLD_ERROR]), kb.find_torch_releases([NEW_ERROR])

    assert old
    assert new
    assert str(old) == str(new)
    assert (old.cxx11_abi, new.cxx11_abi) == (False, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD_ERROR, NEW_ERROR),
        ("_ZNK5torch8autograd4Node4nameEv", "_ZNK5torch8autograd4Node4nameB5cxx11Ev"),
        (
            "_ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_RKSs",
            "_ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        ),
        # References back to what follows the string: vector<string>, and an argument of a type that came before.
        ("_Z1fSt6vectorISsSaISsEES1_", "_Z1fSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS5_EES7_"),
    ],
)
def test_names_of_one_function_share_their_key(old: str, new: str) -> None:
    assert either_abi(old) == either_abi(new)


def test_names_that_share_a_key_differ_in_their_abi() -> None:
    names: dict[str, set[str]] = {}
    for name in {name for row in ASKED for name in row.symbols}:
        names.setdefault(either_abi(name), set()).add(name)
    shared = [found for found in names.values() if len(found) > 1]

    assert len(shared) > 10
    assert [found for found in shared if len(found) > len({names_cxx11_strings([name]) for name in found})] == []


@pytest.mark.parametrize(
    ("symbols", "cxx11_abi"),
    [
        ((NEW_ERROR,), True),
        (("_ZNK5torch8autograd4Node4nameB5cxx11Ev",), True),
        ((OLD_ERROR, "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"), False),
        (("_ZN5torch3jit6parseIISsEEvv",), False),
        (("_ZN3c105ErrorC1ENS_14SourceLocationESs",), False),
        ((EXCHANGE_DEVICE, "_ZN5ClassSs3runEv"), None),
        ((OLD_ERROR, NEW_ERROR), None),
    ],
)
def test_the_abi_is_told_by_names(symbols: tuple[str, ...], cxx11_abi: bool | None) -> None:
    assert names_cxx11_strings(symbols) is cxx11_abi


def test_rows_say_something_and_nothing_twice(kb: KnowledgeBase) -> None:
    rows = kb.torch_symbols()
    names = Counter(either_abi(name) for row in rows for name in row.names)
    spans = Counter((row.first, row.last) for row in rows)
    minors = {".".join(version.split(".")[:2]) for version in kb.torch_releases}

    assert {bound for span in spans for bound in span} <= {*minors, ""}
    assert max(names.values()) == 1
    assert max(spans.values()) == 1
    assert ("", "") not in spans
    assert all(minor(first) <= minor(last) for first, last in spans if first and last)


@pytest.mark.parametrize(
    "name",
    [
        "_ZN3c105ErrorD1Ev",
        "_ZTIN3c1010TensorImplE",
        "_ZTVN5torch8autograd4NodeE",
        "_ZThn16_N5torch8autograd4NodeD0Ev",
        "_ZN2at6detail10noopDeleteEPv",
        "_ZNK2at6Tensor6is_cudaEv",
        "_ZGVN3c106GradMode7enabledE",
        "_ZN3c10lsERSoNS_12TensorTypeIdE",
        "aoti_torch_empty_strided",
        "THPVariableClass",
        "torch_library_impl",
    ],
)
def test_what_is_in_a_namespace_of_torch_is_of_torch(name: str) -> None:
    assert is_torch_symbol(name)


@pytest.mark.parametrize(
    "name",
    [
        "_ZN7project7forwardERKN2at6TensorE",
        "_Z7forwardN2at6TensorE",
        "_ZN10torchaudio3ioE",
        "_ZNSt6vectorIN2at6TensorESaIS1_EED1Ev",
        "_Z3nmsRKN2at6TensorE",
        "_ZN3atb3runEv",
        "cudaFree",
        "torchvision_nms",
        "_ZN3c11fooE",
        "",
    ],
)
def test_what_takes_a_thing_of_torch_is_not_of_torch(name: str) -> None:
    assert not is_torch_symbol(name)
