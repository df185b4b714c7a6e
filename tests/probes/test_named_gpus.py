"""Cards and drivers by name; how names are understood is tested with the knowledge base."""

import pytest

from envdoctor.errors import DriverReleaseError, ExitCode, UnknownGpuError
from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Absence, Gpu, Unavailable
from envdoctor.model.versions import CudaVersion, DriverRelease
from envdoctor.probes.named_gpus import find_named_gpus, named_driver


def test_several_cards_are_found_in_the_order_of_their_names(kb: KnowledgeBase) -> None:
    assert find_named_gpus(("4090", "a6000"), kb) == (
        Gpu(
            index=0,
            name="NVIDIA GeForce RTX 4090",
            compute_capability=ComputeCapability(8, 9),
            source="--gpu 4090",
            brand="GEFORCE",
        ),
        Gpu(
            index=1, name="NVIDIA RTX A6000", compute_capability=ComputeCapability(8, 6), source="--gpu a6000", brand=""
        ),
    )


def test_named_cards_are_not_here(kb: KnowledgeBase) -> None:
    [gpu] = find_named_gpus(("sm_86",), kb)

    assert gpu.is_named
    assert (gpu.compute_capability, gpu.uuid) == (ComputeCapability(8, 6), "")


def test_names_of_one_card_give_it_once(kb: KnowledgeBase) -> None:
    found = find_named_gpus(("4090", "a6000", "NVIDIA GeForce RTX 4090", "RTX_4090"), kb)

    assert [(gpu.index, gpu.source) for gpu in found] == [(0, "--gpu 4090"), (1, "--gpu a6000")]


def test_no_name_is_no_card(kb: KnowledgeBase) -> None:
    assert find_named_gpus((), kb) == ()


def test_an_unknown_name_is_wrong_usage(kb: KnowledgeBase) -> None:
    with pytest.raises(UnknownGpuError, match="RTX 4090") as caught:
        find_named_gpus(("a6000", "rtx 4091"), kb)

    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("text", ["535", "535.161.07"])
def test_a_driver_is_a_branch_or_a_release(kb: KnowledgeBase, text: str) -> None:
    driver = named_driver(text, kb)

    assert (driver.release_version, driver.source) == (DriverRelease(text), "--driver")
    assert driver.cuda_version == CudaVersion(12, 2)
    assert isinstance(driver.module_version, Unavailable)
    assert driver.module_version.absence is Absence.NOT_APPLICABLE


def test_a_driver_of_an_unknown_branch_has_no_newest_cuda(kb: KnowledgeBase) -> None:
    assert named_driver("999.1", kb).cuda_version == Unavailable("the newest CUDA of driver branch 999 is not known")


@pytest.mark.parametrize("text", ["latest", "12.4", "535.", "5350", "v535.161"])
def test_what_is_no_driver_is_wrong_usage(kb: KnowledgeBase, text: str) -> None:
    with pytest.raises(DriverReleaseError, match=r"535\.161\.07") as caught:
        named_driver(text, kb)

    assert caught.value.exit_code is ExitCode.USAGE
