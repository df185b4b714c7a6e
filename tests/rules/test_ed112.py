"""ED112: entries of CUDA_VISIBLE_DEVICES that mean no GPU."""

import pytest

from envdoctor.model.facts import MigInstance
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed112_unknown_visible_device import unknown_visible_device
from tests.builders import a_gpu, a_gpu_health, a_named_gpu, variables

UUIDS = ("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", "GPU-c6d4e1f0-5b0c-4b1e-8a55-1f0f3e9a7b10")
GPUS = tuple(a_gpu(index=index, uuid=uuid) for index, uuid in enumerate(UUIDS))


@pytest.mark.parametrize(
    ("setting", "entry", "better"),
    [
        ("5", "5", "0,1"),  # maudzung/RTM3D#11 the other way round: GPU 5 of the host is GPU 0 in the container
        ("0,2", "2", "0"),
        ("0,cuda:1", "cuda:1", "0"),
        ("all", "all", "0,1"),
        ("GPU-00000000", "GPU-00000000", "0,1"),
        (f"{UUIDS[1]},GPU-0", "GPU-0", UUIDS[1]),
        ("0,0", "0", "0"),
        ("9,9", "9", "0,1"),
        ("1,5,0", "5", "1,0"),
    ],
)
def test_fires_on_an_entry_that_hides_gpus(setting: str, entry: str, better: str) -> None:
    [finding] = unknown_visible_device(gpus=GPUS, variables=variables(CUDA_VISIBLE_DEVICES=setting))

    assert f"`{entry}`" in finding.message
    assert finding.remedy is not None
    assert finding.remedy.commands == (f"export CUDA_VISIBLE_DEVICES={better}",)


def test_shows_what_is_left() -> None:
    [finding] = unknown_visible_device(gpus=GPUS, variables=variables(CUDA_VISIBLE_DEVICES="1,7,0"))

    assert finding.evidence[-1].value == "only what 1 names"


@pytest.mark.parametrize("setting", ["7", "0,0"])
def test_shows_that_nothing_is_left(setting: str) -> None:
    [finding] = unknown_visible_device(gpus=GPUS, variables=variables(CUDA_VISIBLE_DEVICES=setting))

    assert finding.evidence[-1].value == "no GPU"


@pytest.mark.parametrize("setting", ["0", "0,1", "1,0", "", "-1", "0,-1", UUIDS[0], "GPU-5d5b,GPU-c6d4", "NoDevFiles"])
def test_is_silent_about_sound_settings(setting: str) -> None:
    assert not unknown_visible_device(gpus=GPUS, variables=variables(CUDA_VISIBLE_DEVICES=setting))


def test_is_silent_about_the_uuid_of_a_mig_instance() -> None:
    """vllm-project/vllm#6582: the variable holds a MIG UUID, which is no number."""
    instance = MigInstance(uuid="MIG-c7384736-a75d-5afc-978f-d2f1294409fd", name="3g.40gb", total_memory=40 << 30)
    gpu = a_gpu("8.0", health=a_gpu_health(mig_enabled=True, mig_instances=(instance,)))
    setting = variables(CUDA_VISIBLE_DEVICES=instance.uuid)

    assert not unknown_visible_device(gpus=(gpu,), variables=setting)


def test_is_silent_when_nvml_did_not_tell_every_uuid() -> None:
    gpus = (GPUS[0], a_gpu(index=1, uuid=""))

    assert not unknown_visible_device(gpus=gpus, variables=variables(CUDA_VISIBLE_DEVICES="GPU-c6d4"))


def test_has_nothing_to_judge_for_cards_that_are_not_here() -> None:
    setting = variables(CUDA_VISIBLE_DEVICES="7")
    [conclusion] = unknown_visible_device.check(gpus=(a_named_gpu(),), variables=setting)

    assert isinstance(conclusion, NotApplicable)
