"""Pairs that do not belong together, as installers leave them: the program as a process, beside a hollow torch."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hollow import TORCH_2_7, TORCH_2_13_CPU, unpack

Finding = dict[str, Any]
Files = dict[str, str]


def check(site_packages: Path) -> dict[str, Finding]:
    """Judge pairings alone, and return the findings by their code."""
    prefix = str(site_packages.parents[2])
    command = [sys.executable, "-m", "envdoctor", "check", "--format", "json", "--select", "ED4", "--prefix", prefix]
    clean = {name: value for name, value in os.environ.items() if name not in {"LD_LIBRARY_PATH", "PYTHONPATH"}}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return {found["code"]: found for found in json.loads(done.stdout)["findings"]}


def install(site_packages: Path, name: str, version: str, files: Files, *, metadata: str = "") -> None:
    """Do what pip does with a wheel: write over what is there, and list what was written."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    lines = [f"{folder}/RECORD,,"]
    files = files | {f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"}
    for place, content in files.items():
        path = site_packages / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{place},sha256={digest},{len(content)}")
    (site_packages / folder / "RECORD").write_text("\n".join(lines) + "\n")
    (site_packages / folder / "INSTALLER").write_text("pip\n")


@pytest.fixture
def cuda_torch(tmp_path: Path) -> Path:
    return unpack(TORCH_2_7, tmp_path / "lib" / "python3.11" / "site-packages")


@pytest.fixture
def cpu_torch(tmp_path: Path) -> Path:
    return unpack(TORCH_2_13_CPU, tmp_path / "lib" / "python3.11" / "site-packages")


def a_torchvision(version: str, torch: str) -> tuple[Files, str]:
    files = {"torchvision/__init__.py": "", "torchvision/version.py": f"__version__ = {version!r}\n"}
    return files, f"Requires-Dist: numpy\nRequires-Dist: torch=={torch}\n"


def test_a_torch_with_its_wheels_is_healthy(cuda_torch: Path) -> None:
    files, metadata = a_torchvision("0.22.1+cu126", "2.7.1")
    install(cuda_torch, "torchvision", "0.22.1", files, metadata=metadata)

    assert check(cuda_torch) == {}


def test_torchvision_of_another_release(cuda_torch: Path) -> None:
    """https://github.com/pytorch/vision/issues/9174."""
    files, metadata = a_torchvision("0.23.0+cu128", "2.8.0")
    install(cuda_torch, "torchvision", "0.23.0", files, metadata=metadata)

    finding = check(cuda_torch)["ED401"]

    assert finding["message"] == "torchvision 0.23.0 is made for torch 2.8.0, and torch 2.7.1+cu126 is installed"
    assert "torchvision==0.22.1+cu126" in finding["remedy"]["commands"][0]


def test_torchvision_for_cuda_beside_a_cpu_torch(cpu_torch: Path) -> None:
    files, metadata = a_torchvision("0.28.0+cu130", "2.13.0")
    install(cpu_torch, "torchvision", "0.28.0", files, metadata=metadata)

    found = check(cpu_torch)

    assert list(found) == ["ED403"]
    assert found["ED403"]["remedy"]["commands"][0].endswith(
        "torchvision==0.28.0+cpu --index-url https://download.pytorch.org/whl/cpu"
    )


def test_nccl_of_another_major_over_that_of_torch(cuda_torch: Path) -> None:
    """https://github.com/VichyTong/CodeJudge/issues/2."""
    library = "nvidia/nccl/lib/libnccl.so.2"
    install(cuda_torch, "nvidia-nccl-cu12", "2.26.2", {library: "of CUDA 12"})
    install(cuda_torch, "nvidia-nccl-cu11", "2.14.3", {library: "of CUDA 11, longer"})

    finding = check(cuda_torch)["ED404"]

    assert finding["message"].endswith(
        "what lies there is that of nvidia-nccl-cu11, and torch asks for nvidia-nccl-cu12"
    )
    assert "install nvidia-nccl-cu12==2.26.2, which torch asks for" in finding["remedy"]["summary"]


def test_onnxruntime_over_onnxruntime_gpu(cuda_torch: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/26996."""
    module = "onnxruntime/capi/onnxruntime_pybind11_state.so"
    install(cuda_torch, "onnxruntime-gpu", "1.23.2", {"onnxruntime/__init__.py": "", module: "with CUDA"})
    install(cuda_torch, "onnxruntime", "1.23.2", {"onnxruntime/__init__.py": "", module: "without"})

    found = check(cuda_torch)

    assert list(found) == ["ED405"]
    assert found["ED405"]["evidence"] == [{"source": module, "value": "is that of onnxruntime"}]


def test_jax_beside_a_torch_with_an_older_cudnn(cuda_torch: Path) -> None:
    """https://github.com/jax-ml/jax/issues/18032."""
    wanted = "Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.8; sys_platform == 'linux' and extra == 'with-cuda'\n"
    install(cuda_torch, "jax-cuda12-plugin", "0.10.2", {}, metadata=wanted)

    found = check(cuda_torch)

    assert list(found) == ["ED406"]
    assert found["ED406"]["message"] == "too old for jax-cuda12-plugin: nvidia-cudnn-cu12 9.5.1.17 (9.8 or newer)"
