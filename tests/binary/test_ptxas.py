"""What ptxas says about itself without being run, against what it says when it runs."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.ptxas import PtxasLabel, read_label
from envdoctor.binary.reader import open_file
from envdoctor.model.arch import format_arch_list
from tests.compiler import build_library, needs_compiler


def label_of(path: Path) -> PtxasLabel:
    with open_file(path) as reader:
        return read_label(parse_elf(reader))


@pytest.fixture(scope="module")
def ptxas() -> Path:
    """The program itself: on PATH there may be a script that starts it."""
    folders = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *map(str, Path("/usr/local").glob("cuda-*"))]
    for candidate in (shutil.which("ptxas") or "", *(f"{folder}/bin/ptxas" for folder in folders)):
        if Path(candidate).is_file() and is_program(Path(candidate)):
            return Path(candidate)
    pytest.skip("there is no ptxas here")


def is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def test_the_release_is_what_it_prints(ptxas: Path) -> None:
    printed = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout

    assert f"release {label_of(ptxas).release}," in printed


def test_the_targets_are_those_of_its_help(ptxas: Path) -> None:
    printed = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    gpu_name = printed.partition("--gpu-name")[2].partition("\n--")[0]

    assert {str(arch) for arch in label_of(ptxas).targets} == set(re.findall(r"'(sm_\w+)'", gpu_name))


@needs_compiler
def test_targets_that_were_given_up_and_texts_that_share_their_end_do_not_mislead(tmp_path: Path) -> None:
    # As in ptxas 13.0: "sm_20" stands in a message, "compute_75" is the end of another text, sm_89 has no text.
    source = """
    const char* texts[] = {"sm_20", "sm_75", "xcompute_75", "lto_75", "compute_89", "lto_89", "lto_120a",
                           "Cuda compilation tools, release 13.0, V13.0.88"};
    """
    label = label_of(build_library(tmp_path / "ptxas", source))

    assert str(label.release) == "13.0"
    assert format_arch_list(label.targets) == "sm_75 sm_89 sm_120a"


@needs_compiler
def test_a_program_that_is_no_ptxas_says_nothing(tmp_path: Path) -> None:
    assert label_of(build_library(tmp_path / "other")) == PtxasLabel(None, ())
