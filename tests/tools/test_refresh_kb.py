"""The comparison of torch.toml with what wheels say; the downloads themselves are for the maintainer's machine."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.kb import KnowledgeBase
from tools import refresh_kb
from tools.refresh_kb import Reading


def test_the_table_speaks_of_the_default_build(kb: KnowledgeBase) -> None:
    assert refresh_kb.read_table(kb, "1.13.1") == Reading(
        arch_list="sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86",
        cuda="11.7",
        cxx11_abi="False",
        pythons="cp37 cp38 cp39 cp310 cp311",
        companions="torchvision 0.14.1, torchaudio 0.13.1, torchtext 0.14.1",
    )


@pytest.mark.parametrize("version", ["1.8.2", "9.9.9"])
def test_a_release_without_default_build_is_not_in_the_table(kb: KnowledgeBase, version: str) -> None:
    assert refresh_kb.read_table(kb, version) is None


def test_each_difference_is_named_with_both_sides(kb: KnowledgeBase) -> None:
    table = refresh_kb.read_table(kb, "2.8.0")
    assert table

    wheel = replace(table, cuda="12.9", cxx11_abi="False")

    assert list(wheel.differences(table)) == [
        "cuda: the wheel says 12.9, the table says 12.8",
        "cxx11_abi: the wheel says False, the table says True",
    ]
    assert list(table.differences(table)) == []


def test_a_wheel_is_read_as_an_installed_torch_and_deleted(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-9.9.9-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/__init__.py", "")
        archive.writestr("torch/version.py", "__version__ = '9.9.9+cu126'\ncuda = '12.6'\n")
        archive.writestr("torch/include/large.h", "")
        archive.writestr("torch-9.9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9\n")

    build = refresh_kb.read_wheel(wheel)

    assert (build.version, str(build.build_cuda_version)) == ("9.9.9+cu126", "12.6")
    assert not wheel.exists()
    assert not (tmp_path / "site-packages" / "torch" / "include").exists()
