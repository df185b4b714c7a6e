"""Real environments of gigabytes, whole and broken: what is predicted of them is what the real loader says.

They are run by hand: ENVDOCTOR_REAL_ENVIRONMENTS names a folder with venvs of Python 3.11 that are called after the
torch in them (`torch-1.13.1`), and with wheels unpacked into `ext/` and `old/` (`ext/torchvision-0.16.2`).
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compiler import needs_compiler
from tests.end_to_end.real_loader import (
    ask,
    ask_torch,
    build_extension,
    copy_torch,
    examine,
    loader_of,
    needs_torch,
    predicted,
    predicted_of_torch,
)
from tests.probes.pythons import make_venv, site_packages_of
from tools.verify_loader import ask_loader

TORCHES = ("torch-1.13.1", "torch-2.1.2", "torch-2.8.0", "torch-2.14.1")


def real(name: str) -> Path:
    """Find an environment, or an unpacked wheel, of the folder of those that are too large for every machine."""
    folder = os.environ.get("ENVDOCTOR_REAL_ENVIRONMENTS")
    if not folder:
        pytest.skip("ENVDOCTOR_REAL_ENVIRONMENTS names no folder of real environments")
    path = Path(folder, name)
    if not path.is_dir():
        pytest.skip(f"there is no {path}")
    return path


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """Copy a real torch and the links to what it needs, to be broken; return the interpreter."""

    def make(name: str) -> Path:
        torch = site_packages_of(real(name) / "bin" / "python") / "torch"
        python = copy_torch(torch, make_venv(tmp_path / "venv", "3.11"))
        nvidia = site_packages_of(python) / "nvidia"
        nvidia.mkdir()
        for part in (torch.parent / "nvidia").iterdir():
            (nvidia / part.name).symlink_to(part)
        return python

    return make


@pytest.mark.parametrize("name", TORCHES)
def test_each_missing_nvidia_wheel_is_predicted(name: str, copy: Callable[[str], Path]) -> None:
    """As in https://github.com/pytorch/pytorch/issues/89417: some are missed at once, others found elsewhere."""
    python = copy(name)
    told, predicted = {}, {}
    for part in sorted(path for path in (site_packages_of(python) / "nvidia").iterdir() if (path / "lib").is_dir()):
        target = part.readlink()
        part.unlink()
        told[part.name], predicted[part.name] = ask_torch(python), predicted_of_torch(examine(python))
        part.symlink_to(target)

    assert predicted == told
    assert any(told.values())


@pytest.mark.parametrize(
    ("name", "newer", "older", "says"),
    [
        (
            "torch-1.13.1",
            "nvidia-cublas-cu11-11.11.3.6",
            "torch-1.13.1/lib/python3.11/site-packages/nvidia/cublas/lib",
            "undefined symbol: cublasLt_for_cublas_HSS, version libcublasLt.so.11",
        ),
        (
            "torch-2.1.2",
            "nvidia-cusparse-cu12-12.3.1.170",
            "old/nvidia-nvjitlink-cu12-12.1.105/nvidia/nvjitlink/lib",
            "undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
        ),
    ],
)
def test_an_older_library_of_nvidia_on_ld_library_path_is_predicted(
    name: str, newer: str, older: str, says: str, copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in https://github.com/pytorch/pytorch/issues/103832 and https://github.com/pytorch/pytorch/issues/144244."""
    python = copy(name)
    [wheel] = real(f"old/{newer}").glob("nvidia/*/lib")
    own = site_packages_of(python) / "nvidia" / wheel.parent.name
    own.unlink()
    own.symlink_to(wheel.parent)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(real(older)))
    [words] = ask_torch(python)

    assert says in words
    assert predicted_of_torch(examine(python)) == [words]


@pytest.mark.parametrize("name", TORCHES)
@pytest.mark.parametrize("torchvision", ["0.16.2", "0.23.0", "0.29.1"])
def test_each_torchvision_beside_each_torch_is_predicted(
    name: str, torchvision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = real(name) / "bin" / "python"
    package = real(f"ext/torchvision-{torchvision}") / "torchvision"
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    libraries = sorted(package.glob("*.so"))
    told = ask_loader(str(python), [str(library) for library in libraries], import_torch=True)
    refused = {library: answer.words for library, answer in told.items() if answer.outcome == "refused"}
    failed = loader_of(examine(python)).failed

    assert {one.library: one.failure.words for one in failed if one.library in told} == refused


@pytest.mark.parametrize("name", TORCHES)
@needs_torch
@needs_compiler
def test_an_extension_beside_another_torch_than_its_own_is_predicted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extension = build_extension(tmp_path)
    python = real(name) / "bin" / "python"
    monkeypatch.setenv("PYTHONPATH", str(extension))
    [library] = extension.glob("package/_C*.so")
    words = ask(python, library, import_torch=True)

    assert predicted(examine(python), library) == words
