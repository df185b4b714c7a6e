"""Folders that several distributions install into: what is contested, and whose files lie there."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from envdoctor.model.facts import ContestedFolder, Distribution, SearchEntry, Unavailable
from envdoctor.probes.contested_files import find_contested_folders
from envdoctor.probes.distributions import find_distributions
from tests.builders import an_environment

Files = dict[str, str]

CPU = {"onnxruntime/__init__.py": "", "onnxruntime/capi/onnxruntime_pybind11_state.so": "for the CPU"}
GPU = {"onnxruntime/__init__.py": "", "onnxruntime/capi/onnxruntime_pybind11_state.so": "for CUDA, and longer"}
STATE = "onnxruntime/capi/onnxruntime_pybind11_state.so"


def line_of(path: str, content: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def install(site: Path, name: str, files: Files) -> None:
    """Do what pip does: write over what is there, and list what was written."""
    for place, content in files.items():
        path = site / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    record = f"{metadata.name}/RECORD"
    (metadata / "RECORD").write_text("".join(line_of(*file) for file in files.items()) + f"{record},,\n")


def installed_in(site: Path) -> tuple[Distribution, ...]:
    return find_distributions(an_environment(search_path=(SearchEntry(path=str(site), origin="site-packages"),)))


def find(site: Path) -> tuple[ContestedFolder, ...]:
    found = find_contested_folders(installed_in(site))
    assert isinstance(found, tuple)
    return found


def owners(folder: ContestedFolder) -> Files:
    return {Path(file.path).name: file.owner for file in folder.files}


def test_the_last_one_installed_owns_what_lies_there(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-gpu", GPU)
    install(tmp_path, "onnxruntime", CPU)

    [folder] = find(tmp_path)

    assert folder.folder == str(tmp_path / "onnxruntime")
    assert folder.distributions == ("onnxruntime", "onnxruntime-gpu")
    assert folder.contested == 1
    assert owners(folder) == {"onnxruntime_pybind11_state.so": "onnxruntime"}


def test_files_of_one_size_are_told_apart_by_their_content(tmp_path: Path) -> None:
    install(tmp_path, "pillow", {"PIL/Image.py": "a = 1\n"})
    install(tmp_path, "pillow-simd", {"PIL/Image.py": "a = 2\n"})

    [folder] = find(tmp_path)

    assert owners(folder) == {"Image.py": "pillow-simd"}


def test_a_file_that_is_gone_or_changed_is_nobodys(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-gpu", GPU)
    install(tmp_path, "onnxruntime", CPU | {"onnxruntime/x.py": "1"})
    install(tmp_path, "onnxruntime-directml", {"onnxruntime/x.py": "22"})
    (tmp_path / STATE).unlink()
    (tmp_path / "onnxruntime/x.py").write_text("333")

    [folder] = find(tmp_path)

    assert folder.distributions == ("onnxruntime", "onnxruntime-directml", "onnxruntime-gpu")
    assert owners(folder) == {"onnxruntime_pybind11_state.so": "", "x.py": ""}


def test_libraries_come_before_modules(tmp_path: Path) -> None:
    install(tmp_path, "a", {"cv2/a.py": "1", "cv2/cv2.abi3.so": "1", "cv2/b.py": "1"})
    install(tmp_path, "b", {"cv2/a.py": "2", "cv2/cv2.abi3.so": "2", "cv2/b.py": "2"})

    [folder] = find(tmp_path)

    assert [Path(file.path).name for file in folder.files] == ["cv2.abi3.so", "a.py", "b.py"]


def test_of_many_files_the_first_are_looked_at(tmp_path: Path) -> None:
    install(tmp_path, "a", {f"tensorflow/m{number:03}.py": "1" for number in range(100)})
    install(tmp_path, "b", {f"tensorflow/m{number:03}.py": "2" for number in range(100)})

    [folder] = find(tmp_path)

    assert folder.contested == 100
    assert len(folder.files) == 40


def test_each_library_of_nvidia_is_a_folder_of_its_own(tmp_path: Path) -> None:
    for cuda in ("cu11", "cu12"):
        install(tmp_path, f"nvidia-nccl-{cuda}", {"nvidia/nccl/lib/libnccl.so.2": cuda, "nvidia/__init__.py": ""})
        install(tmp_path, f"nvidia-curand-{cuda}", {"nvidia/curand/lib/libcurand.so.10": cuda})

    found = find(tmp_path)

    assert [(Path(each.folder).name, each.distributions) for each in found] == [
        ("curand", ("nvidia-curand-cu11", "nvidia-curand-cu12")),
        ("nccl", ("nvidia-nccl-cu11", "nvidia-nccl-cu12")),
    ]
    assert owners(found[1]) == {"libnccl.so.2": "nvidia-nccl-cu12"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # cuBLAS of two majors shares a folder and no library; CUDA 13 has folders of its own
        ({"nvidia/cublas/lib/libcublas.so.11": "1"}, {"nvidia/cublas/lib/libcublas.so.12": "2"}),
        ({"nvidia/cublas/lib/libcublas.so.12": "1"}, {"nvidia/cu13/lib/libcublas.so.13": "2"}),
        ({"nvidia/cublas/include/cublas.h": "1"}, {"nvidia/cublas/include/cublas.h": "2"}),
        # the mark of a namespace
        ({"google/__init__.py": "", "google/a/x.py": ""}, {"google/__init__.py": "import x", "google/b/x.py": ""}),
        # brought alike
        ({"mmcv/ops.py": "1", "mmcv/_ext.so": "1"}, {"mmcv/ops.py": "1"}),
        # beside the packages
        ({"tests/__init__.py": "", "tests/test_a.py": "1"}, {"tests/__init__.py": "", "tests/test_a.py": "2"}),
        ({"../../../bin/f2py.py": "1"}, {"../../../bin/f2py.py": "2"}),
        ({"six.py": "1"}, {"six.py": "2"}),
        # no code
        ({"a/LICENSE": "1", "a/py.typed": "1", "a/x.json": "1"}, {"a/LICENSE": "2", "a/py.typed": "", "a/x.json": "2"}),
    ],
)
def test_is_silent_about_what_harms_nobody(tmp_path: Path, first: Files, second: Files) -> None:
    install(tmp_path, "first", first)
    install(tmp_path, "second", second)

    assert find(tmp_path) == ()


def test_two_folders_of_the_search_path_do_not_meet(tmp_path: Path) -> None:
    install(tmp_path / "one", "onnxruntime", CPU)
    install(tmp_path / "two", "onnxruntime-gpu", GPU)

    assert find_contested_folders((*installed_in(tmp_path / "one"), *installed_in(tmp_path / "two"))) == ()


@pytest.mark.parametrize(
    "record", ["", "\0,\0,\0", "x", ",,", "a/b.so,sha256=,", "a/b.so", '"a/b,c.so",sha256=x,1', "\udcff"]
)
def test_an_odd_list_of_files_claims_little(tmp_path: Path, record: str) -> None:
    install(tmp_path, "first", {"a/b.so": "1"})
    install(tmp_path, "second", {"a/c.so": "1"})
    (tmp_path / "second-1.0.dist-info" / "RECORD").write_text(record, errors="surrogateescape")

    assert find(tmp_path) == ()


def test_a_missing_list_claims_nothing(tmp_path: Path) -> None:
    install(tmp_path, "first", CPU)
    install(tmp_path, "second", GPU)
    (tmp_path / "second-1.0.dist-info" / "RECORD").unlink()

    assert find(tmp_path) == ()


def test_without_distributions_there_is_a_reason() -> None:
    assert find_contested_folders(Unavailable("locked")) == Unavailable("locked")


# --- as pip does it ----------------------------------------------------------------------------------------------


def build_wheel(folder: Path, name: str, files: Files) -> Path:
    metadata = f"{name.replace('-', '_')}-1.0.dist-info"
    files = files | {
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel = folder / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        archive.writestr(f"{metadata}/RECORD", "".join(line_of(*file) for file in files.items()))
    return wheel


def test_pip_lets_the_second_wheel_write_over_the_first(tmp_path: Path) -> None:
    wheels = [build_wheel(tmp_path, "onnxruntime", CPU), build_wheel(tmp_path, "onnxruntime-gpu", GPU)]
    for wheel in wheels:
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--prefix", "env"]
        subprocess.run([*command, str(wheel)], check=True, cwd=tmp_path, timeout=120)
    [site] = (tmp_path / "env").glob("lib/python*/site-packages")

    [folder] = find(site)

    assert owners(folder) == {"onnxruntime_pybind11_state.so": "onnxruntime-gpu"}


def test_libraries_of_nvidia_may_be_those_of_a_wheel_that_is_gone(tmp_path: Path) -> None:
    library = "nvidia/cudnn/lib/libcudnn.so.8"
    install(tmp_path, "nvidia-cudnn-cu11", {library: "of 8.9", "nvidia/cudnn/__init__.py": ""})
    install(tmp_path, "nvidia-nccl-cu11", {"nvidia/nccl/lib/libnccl.so.2": "of 2.14"})
    (tmp_path / library).write_text("of 8.5, longer")

    [folder] = find(tmp_path)

    assert folder.folder == str(tmp_path / "nvidia" / "cudnn")
    assert folder.distributions == ("nvidia-cudnn-cu11",)
    assert owners(folder) == {"libcudnn.so.8": ""}


def test_libraries_of_nvidia_that_are_gone_are_not_replaced(tmp_path: Path) -> None:
    library = "nvidia/cudnn/lib/libcudnn.so.8"
    install(tmp_path, "nvidia-cudnn-cu11", {library: "of 8.9"})
    (tmp_path / library).unlink()

    assert find(tmp_path) == ()
