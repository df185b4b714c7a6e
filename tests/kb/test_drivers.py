"""Which driver runs which CUDA, and what a generation of devices needs."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.versions import CudaVersion, DriverRelease


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [
        ("550.54.15", "12.6", True),  # minor-version compatibility
        ("525.60.13", "12.9", True),
        ("525.60.11", "12.0", False),
        ("470.82.01", "12.1", False),
        ("450.80.02", "11.8", True),
        ("450.36.06", "11.0", True),
        ("450.36.06", "11.1", False),
        ("440.33.01", "10.2", True),
        ("418.87", "10.2", False),
        ("580", "13.0", True),
        ("575.57.08", "13.0", False),
        ("580.65.06", "10.1", True),
        ("999.10", "12.4", True),  # newer than every branch of the table
        ("580.65.06", "12.7", True),  # no such toolkit, but the family's promise holds
        ("580.65.06", "13.9", True),
        ("580.65.06", "14.0", None),
        ("580.65.06", "7.5", None),
    ],
)
def test_a_driver_runs_a_cuda_or_not(kb: KnowledgeBase, driver: str, cuda: str, *, runs: bool | None) -> None:
    assert kb.driver_runs(DriverRelease.parse(driver), CudaVersion.parse(cuda)) is runs


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [("528.33", "12.4", True), ("527.41", "12.4", False), ("452.39", "11.8", True), ("451.22", "11.0", True)],
)
def test_windows_drivers_have_numbers_of_their_own(kb: KnowledgeBase, driver: str, cuda: str, *, runs: bool) -> None:
    assert kb.driver_runs(DriverRelease.parse(driver), CudaVersion.parse(cuda), "Windows") is runs


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("550.54.15", "12.4"), ("535.161.07", "12.2"), ("470.82.01", "11.4"), ("565.57.01", "12.7"), ("440.33", "10.2")],
)
def test_a_branch_has_a_newest_cuda(kb: KnowledgeBase, driver: str, cuda: str) -> None:
    assert kb.newest_cuda(DriverRelease.parse(driver)) == CudaVersion.parse(cuda)


@pytest.mark.parametrize("driver", ["999.10", "430.26", "620.10"])
def test_no_newest_cuda_is_guessed(kb: KnowledgeBase, driver: str) -> None:
    assert kb.newest_cuda(DriverRelease.parse(driver)) is None


@pytest.mark.parametrize(("cuda", "isa"), [("11.8", "7.8"), ("12.6", "8.5"), ("12.7", "8.6"), ("13.0", "9.0")])
def test_a_cuda_version_knows_ptx_up_to_a_version(kb: KnowledgeBase, cuda: str, isa: str) -> None:
    assert str(kb.ptx_isa(CudaVersion.parse(cuda))) == isa


def test_the_ptx_version_of_an_unknown_cuda_is_not_known(kb: KnowledgeBase) -> None:
    assert kb.ptx_isa(CudaVersion(14, 0)) is None


@pytest.mark.parametrize(
    ("capability", "name", "toolkit", "branch"),
    [
        ("3.7", "Kepler", None, 470),
        ("6.1", "Pascal", None, 580),
        ("7.0", "Volta", "9.0", 580),
        ("7.5", "Turing", "10.0", None),
        ("8.6", "Ampere", "11.1", None),
        ("8.9", "Ada Lovelace", "11.8", None),
        ("9.0", "Hopper", "11.8", None),
        ("12.0", "Blackwell", "12.8", None),
        ("9.9", "", None, None),
    ],
)
def test_a_device_has_a_generation_and_its_ends(
    kb: KnowledgeBase, capability: str, name: str, toolkit: str | None, branch: int | None
) -> None:
    device = ComputeCapability.parse(capability)
    first = kb.first_toolkit(device)

    assert (kb.architecture(device), first and str(first), kb.last_driver_branch(device)) == (name, toolkit, branch)


def test_a_pci_number_names_the_chip(kb: KnowledgeBase) -> None:
    chip = kb.chip("2B85")

    assert chip
    assert (chip.chip, str(chip.compute_capability)) == ("GB202", "12.0")
    assert kb.chip("ffff") is None
