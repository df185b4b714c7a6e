"""``CUDA_VISIBLE_DEVICES`` against NVIDIA's documented rules and against torch's own emulation of the driver."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envdoctor.model.facts import NOT_PROBED, Absence, Gpu, MigInstance, Unavailable
from envdoctor.model.visibility import EntryFault, find_visible_gpus, value_of
from tests.builders import a_gpu, a_gpu_health, a_named_gpu, variables

UUIDS = (
    "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
    "GPU-c6d4e1f0-5b0c-4b1e-8a55-1f0f3e9a7b10",
    "GPU-c6d4ffff-0000-4b1e-8a55-1f0f3e9a7b10",
)
GPUS = tuple(a_gpu("8.9", index=index, uuid=uuid) for index, uuid in enumerate(UUIDS))
MIXED = (GPUS[0], replace(GPUS[1], name="NVIDIA GeForce RTX 3090"))
SLICES = (
    MigInstance(uuid="MIG-c7384736-a75d-5afc-978f-d2f1294409fd", name="3g.40gb", total_memory=40 << 30),
    MigInstance(uuid="MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d", name="3g.40gb", total_memory=40 << 30),
)
SLICED = a_gpu("8.0", uuid=UUIDS[0], health=a_gpu_health(mig_enabled=True, mig_instances=SLICES))


def indices(setting: str, gpus: tuple[Gpu, ...] = GPUS) -> list[int]:
    return [gpu.index for gpu in find_visible_gpus(gpus, variables(CUDA_VISIBLE_DEVICES=setting)).gpus]


def test_every_gpu_is_visible_when_the_variable_is_not_set() -> None:
    assert find_visible_gpus(GPUS, ()).gpus == GPUS


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2", [1, 2]),
        ("1gpu2,2ampere", [1, 2]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("7", []),
        ("0,7,1", [0]),
        ("0,0", []),
        ("all", []),
        ("GPU-5d5b", [0]),
        (f"{UUIDS[2]},{UUIDS[0]}", [2, 0]),
        ("GPU-c6d4", []),
        ("GPU-5d5b,GPU-0000,GPU-c6d4e", [0]),
        ("GPU-5d,GPU-5d5b", []),
        ("0,GPU-5d5b", [0]),
        ("0000000000000000000000000001", [1]),
        pytest.param("9" * 5000, [], id="a number longer than Python reads"),
        pytest.param("1" + "0" * 18, [], id="a number longer than any index"),
    ],
)
def test_settings_choose_gpus_as_cuda_documents(setting: str, expected: list[int]) -> None:
    assert indices(setting) == expected


@pytest.mark.parametrize(
    ("setting", "entry"),
    [
        ("7", "7"),
        ("0,7,1", "7"),
        ("all", "all"),
        ("0,cuda:1", "cuda:1"),
        ("GPU-0000", "GPU-0000"),
        ("GPU-c6d4", "GPU-c6d4"),
    ],
)
def test_an_entry_that_names_no_gpu_is_a_fault(setting: str, entry: str) -> None:
    visible = find_visible_gpus(GPUS, variables(CUDA_VISIBLE_DEVICES=setting))

    assert (visible.fault, visible.faulty_entry) == (EntryFault.UNKNOWN, entry)


@pytest.mark.parametrize("setting", ["0,0", "1,2,1", "GPU-5d5b,GPU-5d5b", "GPU-5d,GPU-5d5b"])
def test_an_entry_named_twice_is_a_fault(setting: str) -> None:
    assert find_visible_gpus(GPUS, variables(CUDA_VISIBLE_DEVICES=setting)).fault is EntryFault.REPEATED


@pytest.mark.parametrize("setting", ["", "-1", "0,-1", "0,", "NoDevFiles", "0,1,2", "GPU-5d5b"])
def test_hiding_gpus_on_purpose_is_no_fault(setting: str) -> None:
    assert find_visible_gpus(GPUS, variables(CUDA_VISIBLE_DEVICES=setting)).fault is None


def test_a_number_does_not_tell_which_of_different_gpus_it_means() -> None:
    visible = find_visible_gpus(MIXED, variables(CUDA_VISIBLE_DEVICES="0"))

    assert (visible.gpus, visible.certain) == (MIXED, False)


@pytest.mark.parametrize(
    ("setting", "order"), [("1", "PCI_BUS_ID"), ("GPU-c6d4", "FASTEST_FIRST"), ("0,1", "FASTEST_FIRST"), ("", "")]
)
def test_the_visible_gpus_are_certain(setting: str, order: str) -> None:
    assert find_visible_gpus(MIXED, variables(CUDA_VISIBLE_DEVICES=setting, CUDA_DEVICE_ORDER=order)).certain


def test_a_uuid_that_nvml_did_not_tell_leaves_the_choice_open() -> None:
    gpus = (GPUS[0], replace(GPUS[1], uuid=""))
    visible = find_visible_gpus(gpus, variables(CUDA_VISIBLE_DEVICES="GPU-c6d4e1f0"))

    assert (visible.gpus, visible.certain, visible.fault) == (gpus, False, None)


@pytest.mark.parametrize("setting", [SLICES[1].uuid, f"MIG-{UUIDS[0]}/1/0", f"{SLICES[0].uuid},{SLICES[1].uuid}"])
def test_a_slice_makes_its_gpu_visible(setting: str) -> None:
    visible = find_visible_gpus((SLICED, GPUS[1]), variables(CUDA_VISIBLE_DEVICES=setting))

    assert (visible.gpus, visible.names_mig_instances) == ((SLICED,), True)


def test_an_unknown_slice_is_a_fault() -> None:
    visible = find_visible_gpus((SLICED,), variables(CUDA_VISIBLE_DEVICES="MIG-00000000-0000"))

    assert (visible.gpus, visible.fault) == ((), EntryFault.UNKNOWN)


def test_a_slice_of_gpus_without_mig_is_a_fault() -> None:
    health = a_gpu_health(mig_instances=Unavailable("nvmlDeviceGetMigMode: Not Supported", Absence.NOT_APPLICABLE))
    gpu = replace(GPUS[0], health=health)
    visible = find_visible_gpus((gpu,), variables(CUDA_VISIBLE_DEVICES="MIG-00000000-0000"))

    assert (visible.gpus, visible.fault) == ((), EntryFault.UNKNOWN)


def test_slices_that_were_not_asked_for_leave_the_choice_open() -> None:
    gpu = replace(GPUS[0], health=a_gpu_health(mig_instances=NOT_PROBED))

    assert not find_visible_gpus((gpu,), variables(CUDA_VISIBLE_DEVICES="MIG-00000000-0000")).certain


def test_slices_that_nvml_did_not_list_leave_the_choice_open() -> None:
    gpu = replace(SLICED, health=a_gpu_health(mig_enabled=True, mig_instances=Unavailable("no permission")))
    visible = find_visible_gpus((gpu,), variables(CUDA_VISIBLE_DEVICES="MIG-00000000-0000"))

    assert (visible.gpus, visible.certain, visible.fault) == ((gpu,), False, None)


def test_numbers_beyond_a_gpu_in_mig_mode_are_no_fault() -> None:
    assert find_visible_gpus((SLICED,), variables(CUDA_VISIBLE_DEVICES="0,1")).fault is None


def test_the_variable_says_nothing_about_cards_that_are_not_here() -> None:
    named = (a_named_gpu("8.9"), a_named_gpu("8.6", index=1))

    assert find_visible_gpus(named, variables(CUDA_VISIBLE_DEVICES="-1")).gpus == named


def test_a_setting_as_long_as_linux_allows_is_read_at_once() -> None:
    assert indices(",".join(map(str, range(20_000)))) == [0, 1, 2]


def test_the_order_of_the_facts_does_not_matter() -> None:
    assert indices("2,0", GPUS[::-1]) == [2, 0]


def test_a_variable_that_is_not_set_has_no_value() -> None:
    assert value_of(variables(NCCL_DEBUG="INFO"), "NCCL_P2P_DISABLE") is None


WORDS = st.sampled_from(
    ["0", "1", "2", "3", "9", " 1", "-1", "", "x", "2x", "GPU-", "GPU-5d5b", "GPU-c6d4", "GPU-c6d4e", *UUIDS]
)


@settings(deadline=None, max_examples=500)  # the first example imports torch
@given(st.lists(WORDS, max_size=5).map(",".join))
def test_agrees_with_the_emulation_in_torch(setting: str) -> None:
    cuda = pytest.importorskip("torch.cuda")
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("CUDA_VISIBLE_DEVICES", setting)
        devices = cuda._parse_visible_devices()
    if devices and isinstance(devices[0], str):
        devices = cuda._transform_uuid_to_ordinals(devices, list(UUIDS))
    beyond = next((place for place, ordinal in enumerate(devices) if ordinal >= len(GPUS)), len(devices))

    assert indices(setting) == devices[:beyond]
