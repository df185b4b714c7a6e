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

from tests.hollow import TORCH_1_10, TORCH_2_7, TORCH_2_13_CPU, unpack

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


def test_cudnn_that_is_not_the_one_of_its_metadata(cuda_torch: Path) -> None:
    """https://github.com/jax-ml/jax/issues/16078: `pip show` tells 8.9.1.23, and torch loads 8.5.0."""
    library = "nvidia/cudnn/lib/libcudnn.so.8"
    install(cuda_torch, "nvidia-cudnn-cu11", "8.9.1.23", {library: "of 8.9.1"})
    (cuda_torch / library).write_text("of 8.5.0, longer")

    finding = check(cuda_torch)["ED404"]

    assert "holds other libraries than nvidia-cudnn-cu11 8.9.1.23 brought" in finding["message"]
    assert finding["remedy"]["commands"][0].endswith("nvidia-cudnn-cu11==8.9.1.23")


def test_onnxruntime_over_onnxruntime_gpu(cuda_torch: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/26996."""
    module = "onnxruntime/capi/onnxruntime_pybind11_state.so"
    install(cuda_torch, "onnxruntime-gpu", "1.23.2", {"onnxruntime/__init__.py": "", module: "with CUDA"})
    install(cuda_torch, "onnxruntime", "1.23.2", {"onnxruntime/__init__.py": "", module: "without"})

    found = check(cuda_torch)

    assert list(found) == ["ED405"]
    assert found["ED405"]["evidence"] == [{"source": module, "value": "is that of onnxruntime"}]


def test_mmcv_over_mmcv_full(cuda_torch: Path) -> None:
    """https://github.com/weiyithu/SurroundOcc/issues/56: whoever uninstalls one of them takes `mmcv._ext` along."""
    install(cuda_torch, "mmcv-full", "1.4.0", {"mmcv/runner.py": "of 1.4", "mmcv/_ext.so": "with CUDA"})
    install(cuda_torch, "mmcv", "1.7.1", {"mmcv/runner.py": "of 1.7"})

    found = check(cuda_torch)

    assert list(found) == ["ED405"]
    assert "uninstall mmcv and mmcv-full together" in found["ED405"]["remedy"]["summary"]


def test_torchvision_for_another_cuda_than_an_old_torch(tmp_path: Path) -> None:
    """https://github.com/zylo117/Yet-Another-EfficientDet-Pytorch/issues/696, with the numbers of that torch."""
    site_packages = unpack(TORCH_1_10, tmp_path / "lib" / "python3.7" / "site-packages")
    version = site_packages / "torch" / "version.py"
    version.write_text("__version__ = '1.4.0+cu92'\ncuda = '9.2'\n")
    for metadata in site_packages.glob("torch-*.dist-info"):
        metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.4.0+cu92\n")
        metadata.rename(metadata.with_name("torch-1.4.0+cu92.dist-info"))
    install(
        site_packages,
        "torchvision",
        "0.5.0",
        {"torchvision/__init__.py": "", "torchvision/version.py": "__version__ = '0.5.0'\ncuda = '10.1'\n"},
        metadata="Requires-Dist: torch (==1.4.0)\n",
    )
    found = check(site_packages)

    assert list(found) == ["ED403"]
    assert "torchvision==0.5.0+cu92" in found["ED403"]["remedy"]["commands"][0]


@pytest.mark.parametrize(
    ("built_for", "code", "message"),
    [
        ("2.13.0+cu130", "ED403", "xformers 0.0.28 is built for CUDA 13.0 beside torch 2.13.0+cpu"),
        ("2.0.0+cu118", "ED401", "xformers 0.0.28 is made for torch 2.0.0"),
    ],
)
def test_xformers_that_was_built_for_another_torch(built_for: str, code: str, message: str, cpu_torch: Path) -> None:
    """https://github.com/open-mmlab/PIA/issues/30, AUTOMATIC1111/stable-diffusion-webui/issues/11395"""
    cuda = {"cu130": 1300, "cu118": 1108}[built_for.partition("+")[2]]
    build = {"version": {"cuda": cuda, "torch": built_for, "python": "3.11.7"}, "env": {}}
    release = built_for.partition("+")[0]
    install(
        cpu_torch,
        "xformers",
        "0.0.28",
        {"xformers/__init__.py": "", "xformers/cpp_lib.json": json.dumps(build)},
        metadata=f"Requires-Dist: numpy\nRequires-Dist: torch=={release}\n",
    )
    found = check(cpu_torch)

    assert code in found
    assert found[code]["message"].startswith(message)


def test_jax_beside_a_torch_with_an_older_cudnn(cuda_torch: Path) -> None:
    """https://github.com/jax-ml/jax/issues/18032."""
    wanted = "Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.8; sys_platform == 'linux' and extra == 'with-cuda'\n"
    install(cuda_torch, "jax-cuda12-plugin", "0.10.2", {}, metadata=wanted)

    found = check(cuda_torch)

    assert list(found) == ["ED406"]
    assert found["ED406"]["message"] == "too old for jax-cuda12-plugin: nvidia-cudnn-cu12 9.5.1.17 (9.8 or newer)"
