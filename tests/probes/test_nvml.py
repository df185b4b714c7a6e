"""NVML as the real nvidia-ml-py meets it: a fake driver library, in every state of health."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import (
    Absence,
    ComputeMode,
    Gpu,
    GpuHealth,
    GpuProcess,
    MigInstance,
    NvmlCode,
    NvmlSession,
    PeerAccess,
    Unavailable,
)
from envdoctor.model.versions import CudaVersion, DriverRelease
from envdoctor.probes import nvml_child
from envdoctor.probes.nvml import start_inquiry
from envdoctor.probes.nvml_answer import NvmlAnswer
from tests.fake_nvml.machine import A_4090, A_P100, AN_A100, MIB, FakeGpu, FakeMachine, Install
from tests.probes.processes import children_of, ends, until

Ask = Callable[[FakeMachine], NvmlAnswer]

# The functions as the library exports them where nvidia-ml-py calls them otherwise.
EXPORTED = {
    "nvmlInit": "nvmlInitWithFlags",
    "nvmlDeviceGetCount": "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex": "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
}
GPU_FUNCTIONS = [
    *(function for function, _, _ in (*nvml_child.IDENTITY, *nvml_child.STATE)),
    "nvmlDeviceGetMigMode",
]
ERRORS = {
    3: ("NVML_ERROR_NOT_SUPPORTED", "Not Supported", Absence.NOT_APPLICABLE),
    4: ("NVML_ERROR_NO_PERMISSION", "Insufficient Permissions", Absence.UNREADABLE),
    15: ("NVML_ERROR_GPU_IS_LOST", "GPU is lost", Absence.UNREADABLE),
    999: ("NVML_ERROR_UNKNOWN", "Unknown Error", Absence.UNREADABLE),
}
# A data-centre card supports everything but retired pages; this one does as well.
A_TALKATIVE_GPU = dataclasses.replace(AN_A100, retired_pages_pending=0)


@pytest.fixture
def ask(fake_nvml: Install, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask the NVML of a fake machine."""

    def ask_machine(machine: FakeMachine) -> NvmlAnswer:
        for name, value in fake_nvml(machine).items():
            monkeypatch.setenv(name, value)
        return start_inquiry().finish()

    return ask_machine


def ask_child(driver: dict[str, str], bindings: Path) -> subprocess.CompletedProcess[str]:
    """Run the program that asks, with nvidia-ml-py from a folder of ours."""
    command = [sys.executable, "-I", "-S", nvml_child.__file__, str(bindings)]
    return subprocess.run(command, env=os.environ | driver, capture_output=True, text=True, check=False)


def known(answer: NvmlAnswer) -> tuple[Gpu, ...]:
    assert isinstance(answer.gpus, tuple)
    return answer.gpus


def health(gpu: Gpu) -> GpuHealth:
    assert gpu.health
    return gpu.health


def session(answer: NvmlAnswer) -> NvmlSession:
    assert isinstance(answer.session, NvmlSession)
    return answer.session


def missing_facts(answer: NvmlAnswer) -> dict[str, Unavailable]:
    """The facts about GPU 0 that are missing, by name."""
    facts = dataclasses.asdict(known(answer)[0], dict_factory=dict) | {
        fact.name: getattr(health(known(answer)[0]), fact.name) for fact in dataclasses.fields(GpuHealth)
    }
    return {name: fact for name, fact in facts.items() if isinstance(fact, Unavailable)}


# --- healthy machines ---------------------------------------------------------------------------------------------


def test_a_consumer_card_is_described_completely(ask: Ask) -> None:
    not_supported = {
        "mig_enabled": "nvmlDeviceGetMigMode",
        "mig_instances": "nvmlDeviceGetMigMode",
        "ecc_enabled": "nvmlDeviceGetEccMode",
        "ecc_uncorrected": "nvmlDeviceGetTotalEccErrors",
        "remapped_rows_pending": "nvmlDeviceGetRemappedRows",
        "remapped_rows_failed": "nvmlDeviceGetRemappedRows",
        "retired_pages_pending": "nvmlDeviceGetRetiredPagesPendingStatus",
    }

    answer = ask(FakeMachine())

    assert answer.driver_release == DriverRelease("580.65.06")
    assert answer.cuda_version == CudaVersion(13, 0)
    assert known(answer) == (
        Gpu(
            index=0,
            name="NVIDIA GeForce RTX 4090",
            compute_capability=ComputeCapability(8, 9),
            source="NVML",
            uuid="GPU-00000000-0000-4000-8000-000000000000",
            pci_bus_id="00000000:01:00.0",
            brand="GEFORCE",
            health=GpuHealth(
                compute_mode=ComputeMode.DEFAULT,
                total_memory=24564 * MIB,
                free_memory=24111 * MIB,
                processes=(),
                power_limit=450.0,
                power_default_limit=450.0,
                temperature=41,
                clock_event_reasons=("GPU_IDLE",),
                pcie_width=16,
                pcie_max_width=16,
                pcie_generation=1,
                pcie_max_generation=4,
                persistence_mode=False,
                bar1_memory=32768 * MIB,
                **{
                    fact: Unavailable(f"{function}: Not Supported", Absence.NOT_APPLICABLE)
                    for fact, function in not_supported.items()
                },
            ),
        ),
    )


def test_a_data_centre_card_tells_of_its_memory_errors(ask: Ask) -> None:
    sick = dataclasses.replace(
        AN_A100, ecc_uncorrected=2, remapped_rows_pending=1, remapped_rows_failed=1, persistence_mode=1
    )

    [gpu] = known(ask(FakeMachine(gpus=(sick,))))

    state = health(gpu)
    assert (state.ecc_enabled, state.ecc_uncorrected) == (True, 2)
    assert (state.remapped_rows_pending, state.remapped_rows_failed) == (True, True)
    assert state.retired_pages_pending == Unavailable(
        "nvmlDeviceGetRetiredPagesPendingStatus: Not Supported", Absence.NOT_APPLICABLE
    )
    assert state.persistence_mode is True


def test_an_older_card_tells_of_its_retired_pages(ask: Ask) -> None:
    [gpu] = known(ask(FakeMachine(gpus=(dataclasses.replace(A_P100, retired_pages_pending=1),))))

    assert health(gpu).retired_pages_pending is True
    assert gpu.compute_capability == ComputeCapability(6, 0)


def test_eight_gpus_are_told_apart(ask: Ask) -> None:
    answer = ask(FakeMachine(gpus=(AN_A100,) * 8, peer_status=0))

    assert [gpu.index for gpu in known(answer)] == list(range(8))
    assert len({gpu.uuid for gpu in known(answer)}) == 8
    assert len({gpu.pci_bus_id for gpu in known(answer)}) == 8
    assert isinstance(answer.peer_access, tuple)
    assert len(answer.peer_access) == 8 * 7 / 2


@pytest.mark.parametrize(("status", "name"), [(0, "OK"), (1, "CHIPSET_NOT_SUPPORTED"), (4, "DISABLED_BY_REGKEY")])
def test_peer_access_has_the_names_of_nvml(ask: Ask, status: int, name: str) -> None:
    answer = ask(FakeMachine(gpus=(A_4090, A_4090), peer_status=status))

    assert answer.peer_access == (PeerAccess(first=0, second=1, read=name, write=name),)


def test_one_gpu_has_no_peers(ask: Ask) -> None:
    assert ask(FakeMachine()).peer_access == Unavailable("fewer than two GPUs", Absence.NOT_APPLICABLE)


def test_no_gpu_is_not_a_missing_fact(ask: Ask) -> None:
    answer = ask(FakeMachine(gpus=()))

    assert answer.gpus == ()
    assert session(answer).device_count == 0
    assert answer.driver_release == DriverRelease("580.65.06")


def test_processes_are_listed_with_their_memory(ask: Ask) -> None:
    unknown = 2**64 - 1
    busy = dataclasses.replace(A_4090, process=("4711 536870912", f"4712 {unknown}"), memory_free=100 * MIB)

    [gpu] = known(ask(FakeMachine(gpus=(busy,))))

    assert health(gpu).processes == (
        GpuProcess(pid=4711, used_memory=536870912),
        GpuProcess(pid=4712, used_memory=Unavailable("NVML does not tell", Absence.NOT_APPLICABLE)),
    )
    assert health(gpu).free_memory == 100 * MIB


@pytest.mark.parametrize(
    ("number", "mode"),
    [
        (0, ComputeMode.DEFAULT),
        (1, ComputeMode.EXCLUSIVE_PROCESS),
        (2, ComputeMode.PROHIBITED),
        (3, ComputeMode.EXCLUSIVE_PROCESS),
        (7, Unavailable("NVML said 7")),
    ],
)
def test_the_compute_mode_is_read(ask: Ask, number: int, mode: ComputeMode | Unavailable) -> None:
    [gpu] = known(ask(FakeMachine(gpus=(dataclasses.replace(A_4090, compute_mode=number),))))

    assert health(gpu).compute_mode == mode


def test_clock_event_reasons_have_names_and_unknown_ones_numbers(ask: Ask) -> None:
    hot = dataclasses.replace(A_4090, clock_event_reasons=0x4 | 0x40 | 0x10000)

    [gpu] = known(ask(FakeMachine(gpus=(hot,))))

    assert health(gpu).clock_event_reasons == ("SW_POWER_CAP", "HW_THERMAL_SLOWDOWN", "0x10000")


def test_a_device_with_unified_memory_has_no_size(ask: Ask) -> None:
    spark = FakeGpu(name="NVIDIA GB10", capability=121, memory=None, memory_free=None)

    [gpu] = known(ask(FakeMachine(gpus=(spark,))))

    absent = Unavailable("nvmlDeviceGetMemoryInfo: Not Supported", Absence.NOT_APPLICABLE)
    assert (health(gpu).total_memory, health(gpu).free_memory) == (absent, absent)
    assert gpu.compute_capability == ComputeCapability(12, 1)


# --- MIG ----------------------------------------------------------------------------------------------------------


def test_mig_instances_are_listed_and_empty_slots_are_no_failure(ask: Ask) -> None:
    sliced = dataclasses.replace(
        AN_A100,
        mig_mode=1,
        mig_instance=(
            "MIG-11111111-1111-4111-8111-111111111111 42144366592 NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            "MIG-22222222-2222-4222-8222-222222222222 20937965568 NVIDIA A100-SXM4-80GB MIG 2g.20gb",
        ),
    )

    answer = ask(FakeMachine(gpus=(sliced,)))

    assert health(known(answer)[0]).mig_enabled is True
    assert health(known(answer)[0]).mig_instances == (
        MigInstance(
            uuid="MIG-11111111-1111-4111-8111-111111111111",
            name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            total_memory=42144366592,
        ),
        MigInstance(
            uuid="MIG-22222222-2222-4222-8222-222222222222",
            name="NVIDIA A100-SXM4-80GB MIG 2g.20gb",
            total_memory=20937965568,
        ),
    )
    assert not [call for call, _ in session(answer).failed_calls if "Mig" in call]


def test_a_gpu_without_mig_mode_on_has_no_instances(ask: Ask) -> None:
    [gpu] = known(ask(FakeMachine(gpus=(AN_A100,))))

    assert (health(gpu).mig_enabled, health(gpu).mig_instances) == (False, ())


@pytest.mark.parametrize("function", ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"])
def test_instances_that_cannot_be_listed_are_not_an_empty_list(ask: Ask, function: str) -> None:
    sliced = dataclasses.replace(AN_A100, mig_mode=1, mig_instance=("MIG-1 1 A100 MIG 1g.10gb",))

    [gpu] = known(ask(FakeMachine(gpus=(sliced,), faults=(f"fail {function} 4",))))

    assert health(gpu).mig_enabled is True
    assert health(gpu).mig_instances == Unavailable(f"{function}: Insufficient Permissions")


# --- single calls that fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("function", GPU_FUNCTIONS)
def test_one_failing_call_leaves_all_other_facts(ask: Ask, function: str, number: int) -> None:
    name, words, absence = ERRORS[number]
    symbols = {EXPORTED.get(function, function), nvml_child.OLDER_NAMES.get(function, function)}

    answer = ask(FakeMachine(gpus=(A_TALKATIVE_GPU,), faults=tuple(f"fail {symbol} {number}" for symbol in symbols)))

    assert session(answer).failed_calls == ((f"{function}(0)", NvmlCode(number, name)),)
    assert set(missing_facts(answer).values()) <= {Unavailable(f"{function}: {words}", absence)}
    assert len(missing_facts(answer)) <= 2  # facts that one call tells together


def test_every_fact_of_a_talkative_gpu_is_there(ask: Ask) -> None:
    """Else the test above would prove little."""
    assert missing_facts(ask(FakeMachine(gpus=(A_TALKATIVE_GPU,)))) == {}


@pytest.mark.parametrize(
    ("function", "fact"),
    [("nvmlSystemGetDriverVersion", "driver_release"), ("nvmlSystemGetCudaDriverVersion", "cuda_version")],
)
def test_a_silent_driver_version_leaves_the_gpus(ask: Ask, function: str, fact: str) -> None:
    answer = ask(FakeMachine(faults=(f"fail {function} 999",)))

    assert getattr(answer, fact) == Unavailable(f"{function}: Unknown Error")
    assert [gpu.name for gpu in known(answer)] == ["NVIDIA GeForce RTX 4090"]


def test_a_driver_version_that_is_none_is_told_as_it_is(ask: Ask) -> None:
    assert ask(FakeMachine(driver_version="internal")).driver_release == Unavailable("NVML said 'internal'")


def test_gpus_that_cannot_be_counted_are_unreadable_not_absent(ask: Ask) -> None:
    answer = ask(FakeMachine(faults=("fail nvmlDeviceGetCount_v2 999",)))

    assert answer.gpus == Unavailable("nvmlDeviceGetCount: Unknown Error")
    assert session(answer).device_count == Unavailable("nvmlDeviceGetCount: Unknown Error")
    assert answer.driver_release == DriverRelease("580.65.06")


def test_a_lost_gpu_leaves_the_others(ask: Ask) -> None:
    answer = ask(FakeMachine(gpus=(A_4090,) * 4, faults=("fail nvmlDeviceGetHandleByIndex_v2 15 1 2",)))

    lost = known(answer)[2]
    assert [gpu.name for gpu in known(answer)] == [A_4090.name, A_4090.name, "unknown GPU", A_4090.name]
    assert lost.compute_capability == Unavailable("nvmlDeviceGetHandleByIndex: GPU is lost")
    assert health(lost).temperature == Unavailable("nvmlDeviceGetHandleByIndex: GPU is lost")
    assert isinstance(answer.peer_access, tuple)
    assert {(pair.first, pair.second) for pair in answer.peer_access} == {(0, 1), (0, 3), (1, 3)}


def test_a_gpu_that_falls_off_the_bus_meanwhile_keeps_what_it_told(ask: Ask) -> None:
    faults = tuple(f"fail {function} 15 1 1" for function, _, _ in nvml_child.STATE)[:12]

    answer = ask(FakeMachine(gpus=(A_4090,) * 2, faults=faults))

    healthy, lost = known(answer)
    assert lost.compute_capability == ComputeCapability(8, 9)
    assert lost.uuid
    assert health(lost).temperature == Unavailable("nvmlDeviceGetTemperature: GPU is lost")
    assert health(healthy).temperature == 41
    assert ("nvmlDeviceGetTemperature(1)", NvmlCode(15, "NVML_ERROR_GPU_IS_LOST")) in session(answer).failed_calls


def test_peers_that_cannot_be_asked_are_unreadable(ask: Ask) -> None:
    answer = ask(FakeMachine(gpus=(A_4090,) * 2, faults=("fail nvmlDeviceGetP2PStatus 999",)))

    assert answer.peer_access == Unavailable("nvmlDeviceGetP2PStatus: Unknown Error")


def test_an_error_that_the_bindings_do_not_know_keeps_its_number(ask: Ask) -> None:
    answer = ask(FakeMachine(faults=("fail nvmlDeviceGetTemperature 4242",)))

    assert ("nvmlDeviceGetTemperature(0)", NvmlCode(4242, "NVML_ERROR_4242")) in session(answer).failed_calls
    assert "an error that only this fake knows" in str(health(known(answer)[0]).temperature)


def test_a_name_that_is_no_text_is_not_the_end(ask: Ask) -> None:
    answer = ask(FakeMachine(gpus=(dataclasses.replace(A_4090, name="RTX \udcff\udcfe"),)))

    assert [gpu.name for gpu in known(answer)] == ["unknown GPU"]
    assert known(answer)[0].compute_capability == ComputeCapability(8, 9)


# --- old drivers --------------------------------------------------------------------------------------------------


def test_an_old_library_is_asked_by_the_old_names(ask: Ask) -> None:
    missing = tuple(nvml_child.OLDER_NAMES)
    gpu = dataclasses.replace(A_4090, process=("4711 536870912",))

    answer = ask(FakeMachine(gpus=(gpu,), driver_version="470.256.02", cuda_version=11040, missing=missing))

    state = health(known(answer)[0])
    assert state.processes == (GpuProcess(pid=4711, used_memory=536870912),)
    assert state.clock_event_reasons == ("GPU_IDLE",)
    assert not [call for call, code in session(answer).failed_calls if code.number == 13]
    assert answer.cuda_version == CudaVersion(11, 4)


@pytest.mark.parametrize("function", [function for function in GPU_FUNCTIONS if function not in nvml_child.OLDER_NAMES])
def test_a_function_that_the_library_lacks_is_one_missing_fact(ask: Ask, function: str) -> None:
    answer = ask(FakeMachine(gpus=(A_TALKATIVE_GPU,), missing=(EXPORTED.get(function, function),)))

    assert session(answer).failed_calls == ((f"{function}(0)", NvmlCode(13, "NVML_ERROR_FUNCTION_NOT_FOUND")),)
    assert len(missing_facts(answer)) <= 2


def test_bindings_that_lack_a_function_lose_one_fact(fake_nvml: Install, tmp_path: Path) -> None:
    """A later nvidia-ml-py may drop what it calls deprecated today."""
    bindings = Path(pynvml.__file__).read_text()
    (tmp_path / "pynvml.py").write_text(bindings.replace("def nvmlDeviceGetTemperature(", "def dropped("))

    records = ask_child(fake_nvml(FakeMachine()), tmp_path).stdout.splitlines()

    assert "no attribute 'nvmlDeviceGetTemperature'" in records[records.index('["nvmlDeviceGetTemperature",0]') + 1]
    assert records[-1] == '"end"'


# --- sessions that do not open ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "name", "words"),
    [
        (4, "NVML_ERROR_NO_PERMISSION", "Insufficient Permissions"),
        (9, "NVML_ERROR_DRIVER_NOT_LOADED", "Driver Not Loaded"),
        (12, "NVML_ERROR_LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"),
        (15, "NVML_ERROR_GPU_IS_LOST", "GPU is lost"),
        (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "RM has detected an NVML/RM version mismatch"),
        (999, "NVML_ERROR_UNKNOWN", "Unknown Error"),
    ],
)
def test_a_session_that_does_not_open_says_why(ask: Ask, number: int, name: str, words: str) -> None:
    answer = ask(FakeMachine(faults=(f"fail nvmlInitWithFlags {number}",)))

    reason = Unavailable(f"nvmlInit: {words}")
    assert session(answer).init == NvmlCode(number, name)
    assert session(answer).library.endswith("libnvidia-ml.so.580.65.06")
    assert (answer.gpus, answer.peer_access, answer.driver_release, answer.cuda_version) == (reason,) * 4


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a driver of its own")
def test_no_library_means_no_gpu_and_how_to_name_one(ask: Ask) -> None:
    answer = ask(FakeMachine(libraries=()))

    assert answer.gpus == Unavailable(
        "no NVIDIA driver library (libnvidia-ml.so.1) here; name a card with --gpu", Absence.NOT_APPLICABLE
    )
    assert session(answer).init == NvmlCode(12, "NVML_ERROR_LIBRARY_NOT_FOUND")
    assert session(answer).library == "libnvidia-ml.so.1"


def test_a_library_that_cannot_be_loaded_is_not_a_missing_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images that were built on a machine with GPUs keep its mount points: files without a byte."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    answer = start_inquiry().finish()

    assert isinstance(answer.gpus, Unavailable)
    assert answer.gpus.absence is Absence.UNREADABLE
    assert "file too short" in answer.gpus.reason


# --- sick drivers -------------------------------------------------------------------------------------------------


def test_a_hang_is_cut_short_and_what_was_told_before_stands(
    fake_nvml: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = FakeMachine(gpus=(A_4090,) * 2, faults=("hang nvmlDeviceGetTemperature 600 1 1",))
    for name, value in fake_nvml(machine).items():
        monkeypatch.setenv(name, value)

    answer = start_inquiry(deadline=3).finish()

    reason = Unavailable("NVML did not answer `nvmlDeviceGetTemperature` for GPU 1: given up after 3 seconds")
    healthy, hung = known(answer)
    assert health(healthy).temperature == 41
    assert hung.compute_capability == ComputeCapability(8, 9)
    assert health(hung).total_memory == 24564 * MIB
    assert health(hung).temperature == reason
    assert health(hung).pcie_width == reason
    assert answer.peer_access == reason
    assert answer.driver_release == DriverRelease("580.65.06")


def test_a_hang_at_the_start_leaves_nothing_but_its_reason(fake_nvml: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in fake_nvml(FakeMachine(faults=("hang nvmlInitWithFlags 600",))).items():
        monkeypatch.setenv(name, value)

    answer = start_inquiry(deadline=3).finish()

    reason = Unavailable("NVML did not answer `nvmlInit`: given up after 3 seconds")
    assert (answer.session, answer.gpus, answer.driver_release) == (reason,) * 3


@pytest.mark.parametrize(
    ("fault", "end"),
    [("crash", "it crashed (Segmentation fault)"), ("exit", "the program that asks it ended with 0")],
)
def test_a_crash_leaves_what_was_told_before(ask: Ask, fault: str, end: str) -> None:
    answer = ask(FakeMachine(gpus=(A_4090,) * 2, faults=(f"{fault} nvmlDeviceGetEccMode",)))

    reason = Unavailable(f"NVML did not answer `nvmlDeviceGetEccMode` for GPU 0: {end}")
    assert [gpu.compute_capability for gpu in known(answer)] == [ComputeCapability(8, 9)] * 2
    assert health(known(answer)[0]).total_memory == 24564 * MIB
    assert health(known(answer)[0]).ecc_enabled == reason
    assert health(known(answer)[1]).total_memory == reason


@pytest.mark.parametrize("count", [257, 100_000, 4_294_967_295])
def test_a_number_of_gpus_that_no_machine_holds_is_none(ask: Ask, count: int) -> None:
    answer = ask(FakeMachine(device_count=count))

    assert session(answer).device_count == Unavailable(f"NVML said {count}")
    assert answer.gpus == answer.peer_access == Unavailable(f"NVML said {count}")
    assert answer.driver_release == DriverRelease("580.65.06")


def test_a_number_of_slices_that_no_gpu_holds_is_none(ask: Ask) -> None:
    gpu = dataclasses.replace(AN_A100, mig_mode=1, mig_instance=("MIG-1 1 NVIDIA A100 MIG 1g.5gb",))
    [found] = known(ask(FakeMachine(gpus=(gpu,), mig_slots=4_294_967_295)))

    assert health(found).mig_instances == Unavailable("NVML said 4294967295")
    assert health(found).temperature == 41


def test_sixty_four_gpus_are_told_apart(ask: Ask) -> None:
    gpus = known(ask(FakeMachine(gpus=(A_4090,) * 64)))

    assert len({gpu.uuid for gpu in gpus}) == 64


@pytest.mark.parametrize(("capability", "said"), [(0, "(0, 0)"), (5, "(0, 5)"), (2_000_000_000, "(200000000, 0)")])
def test_a_capability_that_no_gpu_has_is_none(ask: Ask, capability: int, said: str) -> None:
    [gpu] = known(ask(FakeMachine(gpus=(dataclasses.replace(A_4090, capability=capability),))))

    assert gpu.compute_capability == Unavailable(f"NVML said {said}")


@pytest.mark.parametrize("number", [0, -5, 999, 2_147_483_647])
def test_a_version_of_cuda_that_is_none_is_missing(ask: Ask, number: int) -> None:
    assert ask(FakeMachine(cuda_version=number)).cuda_version == Unavailable(f"NVML said {number}")


def test_a_gpu_without_a_name_is_called_unknown(ask: Ask) -> None:
    [gpu] = known(ask(FakeMachine(gpus=(dataclasses.replace(A_4090, name=""),))))

    assert gpu.name == "unknown GPU"


def test_a_driver_that_hangs_keeps_nobody_when_the_asker_is_killed(fake_nvml: Install) -> None:
    code = "import time; from envdoctor.probes.nvml import start_inquiry; asked = start_inquiry(); time.sleep(60)"
    environ = os.environ | fake_nvml(FakeMachine(faults=("hang nvmlInitWithFlags 600",)))
    with subprocess.Popen([sys.executable, "-c", code], env=environ) as asker:
        assert until(lambda: any(map(has_loaded_nvml, children_of(asker.pid))))
        [asked] = children_of(asker.pid)
        asker.kill()

    assert ends(asked)


def has_loaded_nvml(pid: str) -> bool:
    try:
        return "libnvidia-ml" in Path("/proc", pid, "maps").read_text()
    except OSError:
        return False


def test_without_the_bindings_the_reason_is_told(fake_nvml: Install, tmp_path: Path) -> None:
    child = ask_child(fake_nvml(FakeMachine()), tmp_path)

    assert child.returncode == 1
    assert child.stderr.endswith("ModuleNotFoundError: No module named 'pynvml'\n")


def test_bindings_that_are_a_package_are_found(fake_nvml: Install, tmp_path: Path) -> None:
    """`pynvml`, the older project of the same import name, hides nvidia-ml-py where both are installed."""
    package = tmp_path / "pynvml"
    package.mkdir()
    shutil.copy(pynvml.__file__, package / "__init__.py")
    code = "from envdoctor.probes.nvml import start_inquiry; print(start_inquiry().finish().driver_release)"

    child = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | fake_nvml(FakeMachine()) | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert child.stdout == "580.65.06\n"


# --- what it costs ------------------------------------------------------------------------------------------------


def test_the_bindings_are_not_imported_here(fake_nvml: Install) -> None:
    """They take longer to import than NVML takes to answer."""
    code = (
        "import sys; from envdoctor.probes.nvml import start_inquiry; start_inquiry().finish();"
        " sys.exit('pynvml' in sys.modules or 'ctypes' in sys.modules)"
    )

    child = subprocess.run([sys.executable, "-c", code], env=os.environ | fake_nvml(FakeMachine()), check=False)

    assert child.returncode == 0
