"""The program as its users start it: on hollow copies of real environments, under drivers that are not there.

Situations A to F are those in which tools of this kind give false answers, in both directions.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml.machine import A_3090, A_4090, FakeMachine, Install
from tests.hollow import TORCH_1_10, TORCH_1_13, TORCH_2_7, TORCH_2_13_CPU, TORCH_2_14, unpack

# What a job would bring, and what the machine of the test may have set.
_OF_THE_JOB = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Answer:
    """What the process said."""

    exit_code: int
    report: dict[str, Any]

    def codes(self, *severities: str) -> list[str]:
        return [found["code"] for found in self.report["findings"] if found["severity"] in severities]

    @property
    def alarms(self) -> list[str]:
        return self.codes("error", "warning")


def check(*options: str, variables: dict[str, str]) -> Answer:
    clean = {name: value for name, value in os.environ.items() if name not in _OF_THE_JOB}
    command = [sys.executable, "-m", "envdoctor", "check", "--format", "json", *options]
    done = subprocess.run(command, env=clean | variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return Answer(done.returncode, json.loads(done.stdout))


def a_prefix(folder: Path, python: str, name: str) -> Path:
    """Lay out an environment whose interpreter is not here, as after copying it from another machine."""
    unpack(name, folder / "lib" / f"python{python}" / "site-packages")
    return folder


def test_a_minor_version_compatibility_is_healthy(tmp_path: Path, fake_nvml: Install) -> None:
    """A: CUDA 12.6 needs no driver of 12.6."""
    prefix = a_prefix(tmp_path, "3.11", TORCH_2_7)
    machine = FakeMachine(gpus=(A_4090,), driver_version="550.54.15", cuda_version=12040)
    answer = check("--prefix", str(prefix), variables=fake_nvml(machine))

    assert answer.report["torch"]["version"] == "2.7.1+cu126"
    assert answer.report["driver"]["cuda_version"] == "12.4"
    assert (answer.alarms, answer.exit_code) == ([], 0)


def test_b_the_newest_default_build_suits_a_4090(tmp_path: Path, fake_nvml: Install) -> None:
    """B: no official build lists sm_89, and every one with sm_80 or sm_86 runs on it."""
    prefix = a_prefix(tmp_path, "3.11", TORCH_2_14)
    answer = check("--prefix", str(prefix), variables=fake_nvml(FakeMachine(driver_version="580.65.06")))

    assert "sm_89" not in answer.report["torch"]["arch_list"]
    assert (answer.alarms, answer.exit_code) == ([], 0)


def test_c_torch_from_before_the_card_has_no_kernel_for_it(tmp_path: Path, fake_nvml: Install) -> None:
    """C: the default torch 1.10.2 ends with sm_70; the same release has another build that serves."""
    prefix = a_prefix(tmp_path, "3.7", TORCH_1_10)
    answer = check("--prefix", str(prefix), variables=fake_nvml(FakeMachine(driver_version="550.54.15")))
    [finding] = [found for found in answer.report["findings"] if found["code"] == "ED201"]

    assert (answer.codes("error"), answer.exit_code) == (["ED201"], 1)
    assert "torch==1.10.2+cu111" in finding["remedy"]["commands"][0]
    assert any("sm_37 sm_50 sm_60 sm_70" in evidence["value"] for evidence in finding["evidence"])


def test_d_a_torch_that_cannot_be_imported_is_installed_nevertheless(tmp_path: Path, fake_nvml: Install) -> None:
    """D: without its libcudart the import fails; the build is the same as before."""
    prefix = a_prefix(tmp_path, "3.7", TORCH_1_10)
    [runtime] = prefix.glob("lib/python3.7/site-packages/torch/lib/libcudart*")
    runtime.unlink()
    answer = check("--prefix", str(prefix), variables=fake_nvml(FakeMachine(driver_version="550.54.15")))

    assert answer.report["torch"]["version"] == "1.10.2+cu102"
    assert answer.report["torch"]["flavour"] == "CUDA"
    assert "ED207" not in answer.alarms


def test_e_a_cpu_build_beside_a_gpu_is_an_error(tmp_path: Path, fake_nvml: Install) -> None:
    """E: the metadata says 2.13.0, as it does for CUDA builds."""
    prefix = a_prefix(tmp_path, "3.11", TORCH_2_13_CPU)
    answer = check("--prefix", str(prefix), variables=fake_nvml(FakeMachine()))
    [finding] = [found for found in answer.report["findings"] if found["code"] == "ED207"]

    assert (answer.codes("error"), answer.exit_code) == (["ED207"], 1)
    assert "torch==2.13.0+cu" in finding["remedy"]["commands"][-1]


def test_f_the_activated_environment_is_examined_not_our_own(tmp_path: Path, fake_nvml: Install) -> None:
    """F: envdoctor runs from its own environment; the job will run in the activated one."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    [site_packages] = venv.glob("lib/python3*/site-packages")
    unpack(TORCH_1_13, site_packages)
    answer = check(variables=fake_nvml(FakeMachine()) | {"VIRTUAL_ENV": str(venv)})

    assert answer.report["environment"]["prefix"] == str(venv)
    assert "VIRTUAL_ENV" in answer.report["environment"]["chosen_because"]
    assert answer.report["torch"]["version"] == "1.13.1+cu117"


@pytest.mark.parametrize(
    ("python", "name", "machine"),
    [
        ("3.11", TORCH_2_14, FakeMachine(gpus=(A_4090,), driver_version="580.65.06", cuda_version=13000)),
        ("3.11", TORCH_1_13, FakeMachine(gpus=(A_3090,), driver_version="525.60.13", cuda_version=12000)),
        ("3.11", TORCH_1_13, FakeMachine(gpus=(A_3090,), driver_version="450.80.02", cuda_version=11000)),
        ("3.11", TORCH_2_14, FakeMachine(gpus=(A_4090, A_4090), driver_version="580.65.06", cuda_version=13000)),
    ],
)
def test_nothing_is_said_against_a_healthy_environment(
    python: str, name: str, machine: FakeMachine, tmp_path: Path, fake_nvml: Install
) -> None:
    answer = check("--prefix", str(a_prefix(tmp_path, python, name)), variables=fake_nvml(machine))

    assert (answer.alarms, answer.exit_code) == ([], 0)
    assert [outcome["code"] for outcome in answer.report["outcomes"] if outcome["status"] == "unknown"] == []
    assert {gpu["verdict"] for gpu in answer.report["gpus"]} == {"ok"}


def test_cards_that_are_not_here_get_a_verdict_each(tmp_path: Path, fake_nvml: Install) -> None:
    prefix = a_prefix(tmp_path, "3.11", TORCH_1_13)
    named = ("--gpu", "a6000", "--gpu", "5090", "--gpu", "sm_70")
    # The driver of this machine is too old for the build, which says nothing about the named cards.
    here = FakeMachine(gpus=(A_3090,), driver_version="418.67", cuda_version=10010)
    answer = check("--prefix", str(prefix), *named, variables=fake_nvml(here))

    assert [gpu["verdict"] for gpu in answer.report["gpus"]] == ["ok", "errors", "ok"]
    assert (answer.codes("error"), answer.exit_code) == (["ED201"], 1)


def test_a_driver_too_old_for_the_build_is_an_error(tmp_path: Path, fake_nvml: Install) -> None:
    prefix = a_prefix(tmp_path, "3.11", TORCH_2_14)
    machine = FakeMachine(driver_version="550.54.15", cuda_version=12040)
    answer = check("--prefix", str(prefix), variables=fake_nvml(machine))

    assert (answer.codes("error"), answer.exit_code) == (["ED101"], 1)


def test_a_fault_at_any_single_call_leaves_the_verdict_on_the_code(tmp_path: Path, fake_nvml: Install) -> None:
    prefix = a_prefix(tmp_path, "3.7", TORCH_1_10)
    machine = replace(FakeMachine(), faults=("fail nvmlDeviceGetTemperature 999", "fail nvmlDeviceGetMigMode 15"))
    answer = check("--prefix", str(prefix), variables=fake_nvml(machine))

    assert "ED201" in answer.codes("error")
