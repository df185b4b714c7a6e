"""ED119: several RTX 40 cards and the drivers that got their transfers wrong."""

import pytest

from envdoctor.model.facts import Gpu, PeerAccess, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed119_peer_to_peer_on_ada_geforce import peer_to_peer_on_ada_geforce
from tests.builders import a_driver, a_gpu, a_named_gpu, variables

RTX_4090S = tuple(a_gpu("8.9", index=index, uuid=f"GPU-{index}") for index in range(4))
RTX_2080_TIS = tuple(a_gpu("7.5", index=index, name="NVIDIA GeForce RTX 2080 Ti") for index in range(2))
RTX_6000_ADAS = tuple(
    a_gpu("8.9", index=index, name="NVIDIA RTX 6000 Ada Generation", brand="NVIDIA_RTX") for index in range(2)
)
OFF = "CHIPSET_NOT_SUPPORTED"


@pytest.mark.parametrize("driver", ["520.56.06", "525.60.13", "535.104.05"])
def test_fires_on_old_drivers(driver: str) -> None:
    """NVIDIA/nccl-tests#117 and deepspeedai/DeepSpeed#4433."""
    [finding] = peer_to_peer_on_ada_geforce(gpus=RTX_4090S, driver=a_driver(driver))

    assert finding.gpus == (0, 1, 2, 3)
    assert finding.remedy is not None
    assert finding.remedy.commands == ("export NCCL_P2P_DISABLE=1", "export NCCL_IB_DISABLE=1")


def test_asks_for_the_missing_switch_only() -> None:
    environment = variables(NCCL_P2P_DISABLE="0", NCCL_IB_DISABLE="1")
    [finding] = peer_to_peer_on_ada_geforce(gpus=RTX_4090S, driver=a_driver("535.104.05"), variables=environment)

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export NCCL_P2P_DISABLE=1",)


def test_shows_what_nvml_says_about_the_visible_pairs() -> None:
    peers = (
        PeerAccess(first=0, second=1, read="OK", write="OK"),
        PeerAccess(first=0, second=3, read="CHIPSET_NOT_SUPPORTED", write="CHIPSET_NOT_SUPPORTED"),
    )
    environment = variables(CUDA_VISIBLE_DEVICES="0,1")
    [finding] = peer_to_peer_on_ada_geforce(
        gpus=RTX_4090S, driver=a_driver("525.60.13"), variables=environment, peer_access=peers
    )

    assert "nvmlDeviceGetP2PStatus: OK" in [evidence.value for evidence in finding.evidence]
    assert "nvmlDeviceGetP2PStatus: CHIPSET_NOT_SUPPORTED" not in [evidence.value for evidence in finding.evidence]


@pytest.mark.parametrize(
    ("driver", "environment"),
    [
        ("550.54.15", {}),
        ("550.40.07", {}),
        ("580.65.06", {}),
        ("535.104.05", {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"}),
        ("535.104.05", {"NCCL_P2P_DISABLE": "1"}),
    ],
)
def test_is_silent_when_the_driver_or_the_switches_are_sound(driver: str, environment: dict[str, str]) -> None:
    assert not peer_to_peer_on_ada_geforce(gpus=RTX_4090S, driver=a_driver(driver), variables=variables(**environment))


def test_is_silent_when_the_driver_offers_no_peer_access() -> None:
    peers = tuple(
        PeerAccess(first=first, second=second, read=OFF, write=OFF) for first, second in [(0, 1), (0, 2), (1, 2)]
    )
    environment = variables(CUDA_VISIBLE_DEVICES="0,1,2")

    assert not peer_to_peer_on_ada_geforce(
        gpus=RTX_4090S, driver=a_driver("535.104.05"), variables=environment, peer_access=peers
    )


def test_fires_when_nvml_did_not_tell_about_every_pair() -> None:
    peers = (PeerAccess(first=0, second=1, read=OFF, write=OFF),)

    assert peer_to_peer_on_ada_geforce(gpus=RTX_4090S, driver=a_driver("535.104.05"), peer_access=peers)


@pytest.mark.parametrize(
    "gpus", [RTX_4090S[:1], RTX_2080_TIS, RTX_6000_ADAS, (), (a_named_gpu("8.9"), a_named_gpu("8.9", index=1))]
)
def test_has_nothing_to_judge_with_fewer_than_two_such_cards(gpus: tuple[Gpu, ...]) -> None:
    [conclusion] = peer_to_peer_on_ada_geforce.check(gpus=gpus, driver=a_driver("525.60.13"))

    assert isinstance(conclusion, NotApplicable)


def test_has_nothing_to_judge_when_the_job_sees_one_card() -> None:
    environment = variables(CUDA_VISIBLE_DEVICES="2")
    [conclusion] = peer_to_peer_on_ada_geforce.check(
        gpus=RTX_4090S, driver=a_driver("525.60.13"), variables=environment
    )

    assert isinstance(conclusion, NotApplicable)


def test_leaves_an_unknown_driver_undecided() -> None:
    driver = a_driver(release_version=Unavailable("not told"))
    [conclusion] = peer_to_peer_on_ada_geforce.check(gpus=RTX_4090S, driver=driver)

    assert isinstance(conclusion, Undecided)
