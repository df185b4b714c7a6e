"""Malformed tables are named by file, row and field."""

from pathlib import Path

import pytest

from envdoctor.errors import KnowledgeBaseError
from envdoctor.kb import KnowledgeBase

SOURCES = '[sources]\npage = "https://docs.nvidia.com/"\n'
ROW = 'name = "NVIDIA H100"\ncompute_capability = "9.0"\nsource = ["page"]\nchecked = 2026-12-01\n'


def gpus(folder: Path, text: str) -> KnowledgeBase:
    (folder / "gpus.toml").write_text(text, encoding="utf-8")
    return KnowledgeBase(folder)


def test_a_row_is_read(tmp_path: Path) -> None:
    [gpu] = gpus(tmp_path, f"{SOURCES}[[gpu]]\n{ROW}memory_gb = 80\n").gpus

    assert (gpu.name, str(gpu.compute_capability), gpu.memory_gb) == ("NVIDIA H100", "9.0", (80.0,))
    assert gpu.source == ("https://docs.nvidia.com/",)
    assert not gpu.uncertain


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('compute_capability = "nine"', "gpu[1].compute_capability: not a compute capability: 'nine'"),
        ("compute_capability = 9.0", "gpu[1].compute_capability: not text: 9.0"),
        ("name = 100", "gpu[1].name: not a str: 100"),
        ('checked = "yesterday"', "gpu[1].checked: not a date: 'yesterday'"),
        ('memory_gb = ["much"]', "gpu[1].memory_gb: not a float: 'much'"),
        ("uncertain = 1", "gpu[1].uncertain: not a bool: 1"),
        ('source = ["book"]', "gpu[1].source: 'book' is not in [sources]"),
        ('colour = "black"', "gpu[1].colour: not a field of this table"),
    ],
)
def test_a_malformed_field_is_named(tmp_path: Path, line: str, message: str) -> None:
    field = line.split(" ", maxsplit=1)[0]
    kept = "".join(kept for kept in ROW.splitlines(keepends=True) if not kept.startswith(field))
    kb = gpus(tmp_path, f"{SOURCES}[[gpu]]\n{ROW}[[gpu]]\n{kept}{line}\n")

    with pytest.raises(KnowledgeBaseError) as error:
        _ = kb.gpus

    assert str(error.value) == f"gpus.toml: {message}"


@pytest.mark.parametrize("field", ["name", "compute_capability", "source", "checked"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    row = "".join(line for line in ROW.splitlines(keepends=True) if not line.startswith(field))
    kb = gpus(tmp_path, f"{SOURCES}[[gpu]]\n{row}")

    with pytest.raises(KnowledgeBaseError) as error:
        _ = kb.gpus

    assert str(error.value) == f"gpus.toml: gpu[0].{field}: missing"


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    kb = gpus(tmp_path, "[[gpu]\n")

    with pytest.raises(KnowledgeBaseError, match=r"^gpus.toml: .*line 1"):
        _ = kb.gpus


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"^gpus.toml: .*No such file"):
        _ = KnowledgeBase(tmp_path).gpus


def test_one_broken_table_leaves_the_others_usable(tmp_path: Path) -> None:
    kb = gpus(tmp_path, f"{SOURCES}[[gpu]]\n{ROW}[[alias]]\nalias = 5\n")

    assert [gpu.name for gpu in kb.gpus] == ["NVIDIA H100"]
    with pytest.raises(KnowledgeBaseError, match=r"^gpus.toml: alias\[0\]"):
        _ = kb.gpu_aliases
