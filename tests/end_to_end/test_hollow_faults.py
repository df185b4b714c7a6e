"""What the loader will say to real extensions beside a real torch that they were not built for, without gigabytes.

Hollow copies have all that the loader reads: `tools/hollow.py` predicts the same from them as from the originals. The
real loader's words for real environments are in test_loader_faults.py and test_real_environments.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hollow import (
    AUTOAWQ_KERNELS_0_0_9,
    TORCH_1_13,
    TORCH_2_7,
    TORCH_2_14,
    TORCHVISION_0_23,
    XFORMERS_0_0_28,
    unpack,
)
from tests.probes.pythons import make_venv

Finding = dict[str, Any]


def check(folder: Path, *parts: str, without: str = "") -> list[Finding]:
    """Unpack an environment, take a file away, and judge what the loader will do."""
    python = make_venv(folder, "3.11")
    site_packages = folder / "lib" / "python3.11" / "site-packages"
    for part in parts:
        unpack(part, site_packages)
    if without:
        (site_packages / without).unlink()
    command = [
        sys.executable,
        "-m",
        "envdoctor",
        "check",
        "--format",
        "json",
        "--select",
        "ED3",
        "--python",
        str(python),
    ]
    clean = {name: value for name, value in os.environ.items() if name not in {"LD_LIBRARY_PATH", "LD_PRELOAD"}}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    found: list[Finding] = json.loads(done.stdout)["findings"]
    return found


def texts(finding: Finding) -> str:
    return "\n".join([finding["message"], *(evidence["value"] for evidence in finding["evidence"])])


@pytest.mark.parametrize("torch", [TORCH_1_13, TORCH_2_7, TORCH_2_14])
def test_torch_and_what_was_built_for_it_are_healthy(torch: str, tmp_path: Path) -> None:
    """The last one with torchvision, and with the many variants of bitsandbytes of which one is used."""
    assert check(tmp_path, torch) == []


@pytest.mark.parametrize(
    ("extension", "code", "words", "built_for"),
    [
        (TORCHVISION_0_23, "ED302", "undefined symbol: _ZN3c104cuda9SetDeviceEab", "2.8 or newer"),
        (XFORMERS_0_0_28, "ED311", "undefined symbol: _ZNK5torch8autograd4Node4nameEv", "2.4 to 2.5"),
        (AUTOAWQ_KERNELS_0_0_9, "ED311", "_ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_RKSs", "old C++11 ABI"),
    ],
)
def test_an_extension_that_was_built_for_another_torch(
    extension: str, code: str, words: str, built_for: str, tmp_path: Path
) -> None:
    [finding] = [found for found in check(tmp_path, TORCH_2_7, extension) if found["code"] == code][:1]

    assert words in texts(finding)
    assert built_for in texts(finding)


def test_a_wheel_of_nvidia_that_is_gone(tmp_path: Path) -> None:
    library = "cusparselt/lib/libcusparseLt.so.0"
    [finding] = check(tmp_path, TORCH_2_7, without=library)

    assert finding["code"] == "ED301"
    assert "libcusparseLt.so.0: cannot open shared object file: No such file or directory" in texts(finding)
    assert any("nvidia-cusparselt-cu12" in command for command in finding["remedy"]["commands"])
