"""The questions that are put to the real loader, and the comparison of its answers with predictions."""

import sys
from pathlib import Path

import pytest

from envdoctor.errors import ProbeError
from envdoctor.probes.environment import find_environment
from tests.compiler import build_library, needs_compiler
from tests.probes.pythons import make_venv, site_packages_of
from tools.verify_loader import Answer, ask_loader, compare, verify

NOT_FOUND = "cannot open shared object file: No such file or directory"
LOADED = Answer(outcome="loaded", words="")
SOME_VERSION = "{}.{}".format(*sys.version_info)

CONSTRUCTOR = """
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
__attribute__((constructor)) static void run() { BODY; }
"""


def refused(words: str) -> Answer:
    return Answer(outcome="refused", words=words)


@needs_compiler
@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("", LOADED),
        ('std::puts("[]"); std::fflush(stdout)', LOADED),
        ("std::abort()", Answer(outcome="crashed", words="SIGABRT")),
        ("std::_Exit(3)", Answer(outcome="crashed", words="status 3")),
        ("pause()", Answer(outcome="hung", words="no answer in 0.5 seconds")),
    ],
)
def test_what_the_code_of_a_library_does_is_told_apart(body: str, answer: Answer, tmp_path: Path) -> None:
    library = build_library(tmp_path / "lib.so", CONSTRUCTOR.replace("BODY", body))

    assert ask_loader(sys.executable, [str(library)], import_torch=False, seconds=0.5) == {str(library): answer}


@needs_compiler
def test_a_library_is_opened_as_if_no_other_had_been(tmp_path: Path) -> None:
    needed = build_library(tmp_path / "somewhere" / "libneeded.so")
    needing = build_library(tmp_path / "needing.so", needs=[needed])
    told = ask_loader(sys.executable, [str(needed), str(needing)], import_torch=False)

    assert told == {str(needed): LOADED, str(needing): refused(f"libneeded.so: {NOT_FOUND}")}


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("", LOADED),
        ("import ctypes; ctypes.CDLL('/no/lib.so')", refused(f"/no/lib.so: {NOT_FOUND}")),
        (
            "import ctypes\ntry: ctypes.CDLL('/no/lib.so')\nexcept OSError: raise ValueError('not found either')",
            refused(f"/no/lib.so: {NOT_FOUND}"),
        ),
        (
            "import nothing_of_this_name",
            Answer(outcome="failed", words="ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ),
        ("1 / 0", Answer(outcome="failed", words="ZeroDivisionError: division by zero")),
    ],
)
def test_what_the_loader_says_of_torch_is_told_from_what_its_code_says(
    code: str, answer: Answer, tmp_path: Path
) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    (site_packages_of(python) / "torch.py").write_text(code)

    assert ask_loader(str(python), [], import_torch=True) == {"import torch": answer}


@pytest.mark.parametrize(("code", "words"), [("os._exit(7)", "status 7"), ("os.abort()", "SIGABRT")])
def test_an_import_of_torch_that_ends_the_process_is_an_answer(code: str, words: str, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    (site_packages_of(python) / "torch.py").write_text(f"import os; {code}")
    told = ask_loader(str(python), ["/no/library.so"], import_torch=True)

    assert told == {"import torch": Answer(outcome="crashed", words=words)}


def test_an_interpreter_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ProbeError, match="ended with status 0 after 0 answers"):
        ask_loader("/bin/true", ["/no/library.so"], import_torch=False)


def test_a_difference_is_shown_with_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"a.so": LOADED, "b.so": refused("b.so: file too short"), "c.so": Answer(outcome="hung", words="for long")}

    assert compare({"a.so": LOADED, "b.so": LOADED, "c.so": LOADED}, told) == 1
    assert capsys.readouterr().out.splitlines() == [
        "DIFFERENT b.so",
        "  loader:    b.so: file too short",
        "  predicted: loaded",
        "HUNG c.so: for long (predicted: loaded)",
        "3 asked: 1 loaded, 1 refused, 1 hung; 1 different from the prediction",
    ]


@needs_compiler
def test_an_environment_and_other_folders_are_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    build_library(site_packages_of(python) / "package" / "_loads.so")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "_does_not.so").write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 3)

    assert verify(find_environment(python=str(python), prefix=""), [tmp_path / "more"], alone=False) == 0
    assert capsys.readouterr().out == "2 asked: 1 loaded, 1 refused; 0 different from the prediction\n"
