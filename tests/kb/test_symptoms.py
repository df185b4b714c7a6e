"""The table of error messages: every message finds its rules, and no other's."""

import re

import pytest

from envdoctor import kb
from envdoctor.kb.tables import SymptomRow

SYMPTOMS = kb.load().symptoms()

each_symptom = pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.example[:40])


@each_symptom
def test_a_pattern_matches_its_own_example_and_no_other(symptom: SymptomRow) -> None:
    assert [other.example for other in SYMPTOMS if symptom.matches(other.example)] == [symptom.example]


@each_symptom
def test_an_example_is_found_inside_a_log(symptom: SymptomRow) -> None:
    assert symptom.matches(f'Traceback (most recent call last):\n  File "a.py", line 803\n{symptom.example}\n\n$ ')


@each_symptom
def test_a_pattern_does_not_match_everything(symptom: SymptomRow) -> None:
    assert not re.search(symptom.pattern, "")
    assert not symptom.matches("import torch: everything is fine (803, 804, CUDA, GPU, driver)")


@each_symptom
def test_repetitions_have_bounds(symptom: SymptomRow) -> None:
    """Two without bounds that may share characters take the square of a log's length, or of a line's."""
    assert not re.search(r"(\\[sSwWdD]|(?<!\\)[].)])[*+]", symptom.pattern)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "ED110"),
        ("unique_by_key: failed on 2nd step: cudaErrorNoKernelImageForDevice", "ED201"),
        ("cublas runtime error : the GPU program failed to execute at /opt/conda/", "ED202"),
        ("AssertionError: libcuda.so cannot found!", "ED104"),
        ("nms is not compiled with GPU support", "ED209"),
        ("NVRM: installed in this system is not supported by the\n    NVRM: NVIDIA 520.56.06 driver release.", "ED128"),
        ("Failed to initialize NVML: Insufficient Permissions", "ED106"),
        ("undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs", "ED303"),
        ("ImportError: /a/_C.so: undefined symbol: _ZTIN3c1010TensorImplE", "ED302"),
        ("ImportError: libc10.so: cannot open shared object file: No such file or directory", "ED304"),
        ("OSError: libcudart.so.11.0: cannot open shared object file: No such file or directory", "ED304"),
        ("libcudnn_ops_infer.so.8: cannot open shared object file", "ED310"),
        ("/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by /a/b.so)", "ED305"),
        ("libcublas.so.11: undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11", "ED306"),
        ("libgthread-2.0.so.0: cannot open shared object file: No such file or directory", "ED308"),
        ("ModuleNotFoundError: No module named 'mmcv._ext'", "ED309"),
        ("WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for: PyTorch 2.1.2", "ED311"),
        ("ImportError: /a/b.so: file too short", "ED312"),
        ("    from torch._C import *\nImportError: No module named _C\n", "ED010"),
        ("ImportError: Failed to load PyTorch C extensions:\n    It appears that PyTorch has loaded", "ED021"),
        ("Importing the numpy C-extensions failed. This error can happen for\nmany reasons", "ED309"),
        ("symbol f version libcublasLt.so.11 not defined in file libcublasLt.so.11 with link time reference", "ED306"),
    ],
)
def test_other_wordings_of_real_messages_are_known(message: str, code: str) -> None:
    assert code in {code for symptom in SYMPTOMS if symptom.matches(message) for code in symptom.codes}


def test_a_line_of_every_failure_of_torch_says_nothing() -> None:
    log = "    from torch._C import *  # noqa: F403\nImportError: libcudnn.so.9: cannot open shared object file"
    codes = {code for symptom in SYMPTOMS if symptom.matches(log) for code in symptom.codes}

    assert "ED301" in codes
    assert not codes & {"ED010", "ED021"}
