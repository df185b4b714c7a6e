"""The choice of the symbols of torch_symbols.toml; the downloads themselves are for the maintainer's machine."""

import zipfile
from datetime import date
from pathlib import Path

import tomli

from envdoctor.kb import KnowledgeBase
from tests.compiler import build_library, needs_compiler
from tools.refresh_torch_symbols import (
    AskingLibrary,
    Span,
    choose,
    find_spans,
    newest_patches,
    read_asking_libraries,
    read_defined,
    write_table,
)

RELEASES = ["1.13.1", "2.0.1", "2.1.2"]


def asking(wheel: str, *symbols: str) -> AskingLibrary:
    return AskingLibrary(wheel=wheel, library="_C.so", built_for="", known_by="", symbols=symbols)


def test_a_symbol_spans_the_releases_that_define_it() -> None:
    defined = [frozenset({"old", "always"}), frozenset({"always"}), frozenset({"always", "new"})]
    spans = find_spans(defined, frozenset({"old", "always", "new", "never"}))

    assert spans == {"old": Span(0, 0), "always": Span(0, 2), "new": Span(2, 2)}


def test_a_symbol_that_was_gone_for_a_while_tells_nothing() -> None:
    assert find_spans([frozenset({"on"}), frozenset(), frozenset({"on"})], frozenset({"on"})) == {}


def test_a_symbol_changes_its_abi_and_stays_the_same() -> None:
    defined = [
        frozenset({"_ZN3c101fERKSs"}),
        frozenset({"_ZN3c101fERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"}),
    ]

    assert find_spans(defined, frozenset({"_ZN3c101fERK#"})) == {"_ZN3c101fERK#": Span(0, 1)}


def test_symbols_are_chosen_that_two_projects_ask_for_or_that_bound_a_library_most_closely() -> None:
    spans = {"common": Span(0, 1), "first": Span(1, 2), "idle": Span(0, 2), "same": Span(1, 2)}
    libraries = [
        asking("a-1.whl", "common", "idle"),
        asking("b-1.whl", "common", "first", "same"),
        asking("b-2.whl", "idle"),
    ]

    assert choose(libraries, spans) == {"common", "idle", "first"}


def test_the_table_has_one_row_for_the_symbols_of_the_same_releases() -> None:
    spans = {"b": Span(1, 2), "a": Span(1, 2), "c": Span(0, 1)}
    text = write_table(RELEASES, spans, {"a": "_Z1av", "b": "_Z1bv", "c": "_Z1cv"}, date(2026, 12, 1))

    assert tomli.loads(text)["symbols"] == [
        {"last": "2.0", "names": "_Z1cv\n", "source": "wheels", "checked": date(2026, 12, 1)},
        {"first": "2.0", "names": "_Z1av\n_Z1bv\n", "source": "wheels", "checked": date(2026, 12, 1)},
    ]


def test_each_minor_release_of_the_default_index_is_read_once(kb: KnowledgeBase) -> None:
    chosen = newest_patches(kb)

    assert {"1.8.1", "1.13.1", "2.1.2"} <= set(chosen)
    assert not {"1.8.2", "1.13.0"} & set(chosen)  # 1.8.2 is on another index


@needs_compiler
def test_wheels_are_read_for_what_they_ask_and_for_what_they_define(tmp_path: Path) -> None:
    torch = build_library(tmp_path / "libc10.so", "namespace c10 { void kept() {} void other() {} } void mine() {}")
    source = "namespace c10 { void kept(); } extern void mine(); void use() { c10::kept(); mine(); }"
    extension = build_library(tmp_path / "_C.so", source)
    wheels = [tmp_path / "torch-2.1.2-cp311-cp311-linux_x86_64.whl", tmp_path / "a-1-cp311-cp311-linux_x86_64.whl"]
    with zipfile.ZipFile(wheels[0], "w") as archive:
        archive.write(torch, "torch/lib/libc10.so")
        archive.write(extension, "torch/test/_C.so")
    with zipfile.ZipFile(wheels[1], "w") as archive:
        archive.write(extension, "a/_C.so")
        archive.writestr("a-1.dist-info/METADATA", "Name: a\nRequires-Dist: numpy\nRequires-Dist: torch (==2.1.2)\n")

    assert read_defined(wheels[0]) == {"_ZN3c104keptEv", "_ZN3c105otherEv"}
    assert list(read_asking_libraries(wheels[1], "")) == [
        AskingLibrary(
            wheel=wheels[1].name,
            library="a/_C.so",
            built_for="2.1.2",
            known_by="Requires-Dist",
            symbols=("_ZN3c104keptEv",),
        )
    ]
