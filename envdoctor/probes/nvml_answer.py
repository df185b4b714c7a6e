"""What NVML said, as facts: the lines of the child in, driver and GPUs out."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

from envdoctor.model.arch import ComputeCapability
from envdoctor.model.codec import CodecError, from_json
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

T = TypeVar("T")
R = TypeVar("R")

NO_LIBRARY = Unavailable(
    "no NVIDIA driver library (libnvidia-ml.so.1) here; name a card with --gpu", Absence.NOT_APPLICABLE
)
_LIBRARY = "libnvidia-ml.so.1"
_NO_NAME = "unknown GPU"
_ONE_GPU = Unavailable("fewer than two GPUs", Absence.NOT_APPLICABLE)
_NO_PROCESS_MEMORY = Unavailable("NVML does not tell", Absence.NOT_APPLICABLE)

_SUCCESS = NvmlCode(0, "NVML_SUCCESS")
_NOT_FOUND = NvmlCode(6, "NVML_ERROR_NOT_FOUND")
_NOT_APPLICABLE = frozenset({3, 22})  # NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_VGPU_ECC_NOT_SUPPORTED

_MIG_SLOT = "nvmlDeviceGetMigDeviceHandleByIndex"
# What an older name of a function answered is the answer of the newer one.
_NEWER_NAMES = {
    "nvmlDeviceGetComputeRunningProcesses_v2": "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "nvmlDeviceGetCurrentClocksEventReasons",
}

# The enumerations of nvml.h: nvmlBrandType_t, nvmlComputeMode_t, nvmlClocksEventReasons, nvmlGpuP2PStatus_t.
_BRANDS = {
    1: "QUADRO",
    2: "TESLA",
    3: "NVS",
    4: "GRID",
    5: "GEFORCE",
    6: "TITAN",
    7: "NVIDIA_VAPPS",
    8: "NVIDIA_VPC",
    9: "NVIDIA_VCS",
    10: "NVIDIA_VWS",
    11: "NVIDIA_CLOUD_GAMING",
    12: "QUADRO_RTX",
    13: "NVIDIA_RTX",
    14: "NVIDIA",
    15: "GEFORCE_RTX",
    16: "TITAN_RTX",
}
_COMPUTE_MODES = {
    0: ComputeMode.DEFAULT,
    1: ComputeMode.EXCLUSIVE_PROCESS,  # "exclusive thread": deprecated, drivers since CUDA 8 treat it as the other one
    2: ComputeMode.PROHIBITED,
    3: ComputeMode.EXCLUSIVE_PROCESS,
}
_CLOCK_EVENT_REASONS = {
    0x001: "GPU_IDLE",
    0x002: "APPLICATIONS_CLOCKS_SETTING",
    0x004: "SW_POWER_CAP",
    0x008: "HW_SLOWDOWN",
    0x010: "SYNC_BOOST",
    0x020: "SW_THERMAL_SLOWDOWN",
    0x040: "HW_THERMAL_SLOWDOWN",
    0x080: "HW_POWER_BRAKE_SLOWDOWN",
    0x100: "DISPLAY_CLOCK_SETTING",
}
_PEER_STATUSES = {
    0: "OK",
    1: "CHIPSET_NOT_SUPPORTED",
    2: "GPU_NOT_SUPPORTED",
    3: "IOH_TOPOLOGY_NOT_SUPPORTED",
    4: "DISABLED_BY_REGKEY",
    5: "NOT_SUPPORTED",
    6: "UNKNOWN",
}
_PEER_READ, _PEER_WRITE = 0, 1
_POSSIBLE_COUNTS = range(257)  # as in nvml_child.py

Question = tuple[Any, ...]  # the function, then the GPU and whatever else the question is about


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlAnswer:
    """Everything that NVML told."""

    session: NvmlSession | Unavailable
    gpus: tuple[Gpu, ...] | Unavailable
    peer_access: tuple[PeerAccess, ...] | Unavailable
    driver_release: DriverRelease | Unavailable
    cuda_version: CudaVersion | Unavailable


@dataclass(frozen=True, slots=True)
class Transcript:
    """The questions that were asked and the answers that came."""

    answers: dict[Question, dict[str, Any]]
    silence: str  # why there is no answer to anything else

    @classmethod
    def parse(cls, records: bytes, end: str) -> "Transcript":
        """Read the lines of the child; *end* says how it ended, which matters when it did not finish."""
        answers: dict[Question, dict[str, Any]] = {}
        question: Question = ()
        finished = False
        # What follows the last line end was cut off together with the child.
        for record in map(json.loads, records.decode().split("\n")[:-1]):
            if isinstance(record, list):
                question = (_NEWER_NAMES.get(record[0], record[0]), *record[1:])
            elif isinstance(record, dict):
                answers[question] = record
                question = ()
            else:
                finished = True
        return cls(answers, "NVML was not asked" if finished else f"{_describe_silence(question)}: {end}")

    def fact(self, kind: type[T], function: str, *subject: int) -> T | Unavailable:
        """Return what a call gave, or why it gave nothing, in NVML's words."""
        answer = self.answers.get((function, *subject))
        if answer is None:
            return Unavailable(self.silence)
        if "mishap" in answer:
            return Unavailable(f"{function}: {answer['mishap']}")
        if "error" in answer:
            number, _, words = answer["error"]
            absence = Absence.NOT_APPLICABLE if number in _NOT_APPLICABLE else Absence.UNREADABLE
            return Unavailable(f"{function}: {words.rstrip('.')}", absence)
        try:
            return from_json(kind, answer["value"])
        except CodecError as exc:
            return Unavailable(f"{function}: {exc}")

    def code(self, function: str, *subject: int) -> NvmlCode | None:
        """Return the return value of a call, None when it did not return."""
        answer = self.answers.get((function, *subject))
        if answer is None:
            return None
        return NvmlCode(*answer["error"][:2]) if "error" in answer else _SUCCESS

    def failed_calls(self) -> Iterator[tuple[str, NvmlCode]]:
        """Yield the calls that failed, with their GPU; a slot that holds no MIG instance is no failure."""
        for function, *subject in self.answers:
            code = self.code(function, *subject)
            if code and code != _SUCCESS and (function, code) != (_MIG_SLOT, _NOT_FOUND):
                yield f"{function}({subject[0]})" if subject else function, code


def read_answer(told: Transcript) -> NvmlAnswer:
    """Turn a transcript into facts: what is not in it is `Unavailable`, the rest stands."""
    library = told.fact(str, "dlopen")
    if isinstance(library, Unavailable):
        absent = "No such file or directory" in library.reason
        return _read_nothing(told.code("dlopen"), _LIBRARY, NO_LIBRARY if absent else library)
    init = told.fact(bool, "nvmlInit")
    if isinstance(init, Unavailable):
        return _read_nothing(told.code("nvmlInit"), library, Unavailable(init.reason))
    count = _derived(told.fact(int, "nvmlDeviceGetCount"), _check_count)
    return NvmlAnswer(
        session=NvmlSession(
            library=library,
            init=_SUCCESS,
            device_count=count,
            failed_calls=tuple(told.failed_calls()),
        ),
        gpus=_derived(count, lambda number: tuple(_read_gpu(told, index) for index in range(number))),
        peer_access=_derived(count, lambda number: _read_peer_access(told, number)),
        driver_release=_derived(told.fact(str, "nvmlSystemGetDriverVersion"), DriverRelease.parse),
        cuda_version=_derived(told.fact(int, "nvmlSystemGetCudaDriverVersion"), CudaVersion.from_number),
    )


def _describe_silence(question: Question) -> str:
    if not question:
        return "NVML was not asked"
    function, *subject = question
    return f"NVML did not answer `{function}`" + (f" for GPU {subject[0]}" if subject else "")


def _read_nothing(code: NvmlCode | None, library: str, reason: Unavailable) -> NvmlAnswer:
    session = NvmlSession(library=library, init=code, device_count=reason) if code else reason
    return NvmlAnswer(session=session, gpus=reason, peer_access=reason, driver_release=reason, cuda_version=reason)


def _read_gpu(told: Transcript, index: int) -> Gpu:
    handle = told.fact(bool, "nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, Unavailable):
        unreachable = GpuHealth(**{fact.name: handle for fact in dataclasses.fields(GpuHealth)})
        return Gpu(index=index, name=_NO_NAME, compute_capability=handle, source="NVML", health=unreachable)
    capability = told.fact(tuple[int, int], "nvmlDeviceGetCudaComputeCapability", index)
    [bus_id] = _or(told.fact(tuple[str], "nvmlDeviceGetPciInfo", index), ("",))
    return Gpu(
        index=index,
        name=_or(told.fact(str, "nvmlDeviceGetName", index), "") or _NO_NAME,
        compute_capability=_derived(capability, lambda numbers: _read_capability(*numbers)),
        source="NVML",
        uuid=_or(told.fact(str, "nvmlDeviceGetUUID", index), ""),
        pci_bus_id=bus_id,
        brand=_BRANDS.get(_or(told.fact(int, "nvmlDeviceGetBrand", index), 0), ""),
        health=_read_health(told, index),
    )


def _check_count(number: int) -> int:
    if number not in _POSSIBLE_COUNTS:
        raise ValueError("more than any machine holds")
    return number


def _read_capability(major: int, minor: int) -> ComputeCapability:
    capability = ComputeCapability.parse(f"{major}.{minor}")
    if not capability.major:
        raise ValueError("no GPU that knows CUDA has it")
    return capability


def _read_health(told: Transcript, index: int) -> GpuHealth:
    def number(function: str) -> int | Unavailable:
        return told.fact(int, function, index)

    memory = told.fact(tuple[int, int], "nvmlDeviceGetMemoryInfo", index)
    bar1 = told.fact(tuple[int], "nvmlDeviceGetBAR1MemoryInfo", index)
    ecc = told.fact(tuple[int, int], "nvmlDeviceGetEccMode", index)
    mig = told.fact(tuple[int, int], "nvmlDeviceGetMigMode", index)
    remapped = told.fact(tuple[int, int, int, int], "nvmlDeviceGetRemappedRows", index)
    processes = told.fact(tuple[tuple[int, int | None], ...], "nvmlDeviceGetComputeRunningProcesses_v3", index)
    return GpuHealth(
        compute_mode=_derived(number("nvmlDeviceGetComputeMode"), _COMPUTE_MODES.__getitem__),
        total_memory=_derived(memory, lambda sizes: sizes[0]),
        free_memory=_derived(memory, lambda sizes: sizes[1]),
        processes=_derived(processes, lambda rows: tuple(_read_process(*row) for row in rows)),
        mig_enabled=_derived(mig, lambda modes: bool(modes[0])),
        mig_instances=_derived(mig, lambda modes: _read_mig_instances(told, index) if modes[0] else ()),
        ecc_enabled=_derived(ecc, lambda modes: bool(modes[0])),
        ecc_uncorrected=number("nvmlDeviceGetTotalEccErrors"),
        remapped_rows_pending=_derived(remapped, lambda rows: bool(rows[2])),
        remapped_rows_failed=_derived(remapped, lambda rows: bool(rows[3])),
        retired_pages_pending=_derived(number("nvmlDeviceGetRetiredPagesPendingStatus"), bool),
        power_limit=_derived(number("nvmlDeviceGetPowerManagementLimit"), _watts),
        power_default_limit=_derived(number("nvmlDeviceGetPowerManagementDefaultLimit"), _watts),
        temperature=number("nvmlDeviceGetTemperature"),
        clock_event_reasons=_derived(number("nvmlDeviceGetCurrentClocksEventReasons"), _name_clock_event_reasons),
        pcie_width=number("nvmlDeviceGetCurrPcieLinkWidth"),
        pcie_max_width=number("nvmlDeviceGetMaxPcieLinkWidth"),
        pcie_generation=number("nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_max_generation=number("nvmlDeviceGetMaxPcieLinkGeneration"),
        persistence_mode=_derived(number("nvmlDeviceGetPersistenceMode"), bool),
        bar1_memory=_derived(bar1, lambda sizes: sizes[0]),
    )


def _read_process(pid: int, used_memory: int | None) -> GpuProcess:
    return GpuProcess(pid=pid, used_memory=_NO_PROCESS_MEMORY if used_memory is None else used_memory)


def _read_mig_instances(told: Transcript, index: int) -> tuple[MigInstance, ...] | Unavailable:
    slots = _derived(told.fact(int, "nvmlDeviceGetMaxMigDeviceCount", index), _check_count)
    if isinstance(slots, Unavailable):
        return slots
    instances = []
    for slot in range(slots):
        handle = told.fact(bool, _MIG_SLOT, index, slot)
        if not isinstance(handle, Unavailable):
            instances.append(_read_mig_instance(told, index, slot))
        elif told.code(_MIG_SLOT, index, slot) != _NOT_FOUND:
            return handle
    return tuple(instances)


def _read_mig_instance(told: Transcript, index: int, slot: int) -> MigInstance:
    memory = told.fact(tuple[int], "nvmlDeviceGetMemoryInfo", index, slot)
    return MigInstance(
        uuid=_or(told.fact(str, "nvmlDeviceGetUUID", index, slot), ""),
        name=_or(told.fact(str, "nvmlDeviceGetName", index, slot), "unknown MIG instance"),
        total_memory=_derived(memory, lambda sizes: sizes[0]),
    )


def _read_peer_access(told: Transcript, count: int) -> tuple[PeerAccess, ...] | Unavailable:
    """Read the pairs that NVML told of both ways; `failed_calls` knows the others."""

    def status(first: int, second: int, way: int) -> str | Unavailable:
        return _derived(told.fact(int, "nvmlDeviceGetP2PStatus", first, second, way), _PEER_STATUSES.__getitem__)

    pairs = list(combinations(range(count), 2))
    if not pairs:
        return _ONE_GPU
    known = []
    missing = Unavailable(told.silence)
    for first, second in pairs:
        read, write = status(first, second, _PEER_READ), status(first, second, _PEER_WRITE)
        if isinstance(read, Unavailable):
            missing = read
        elif isinstance(write, Unavailable):
            missing = write
        else:
            known.append(PeerAccess(first=first, second=second, read=read, write=write))
    return tuple(known) or missing


def _name_clock_event_reasons(mask: int) -> tuple[str, ...]:
    bits = (1 << place for place in range(mask.bit_length()) if mask >> place & 1)
    return tuple(_CLOCK_EVENT_REASONS.get(bit, f"{bit:#x}") for bit in bits)


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _derived(fact: T | Unavailable, convert: Callable[[T], R | Unavailable]) -> R | Unavailable:
    """Convert a fact that is there; a value that NVML's documents do not know is as good as missing."""
    if isinstance(fact, Unavailable):
        return fact
    try:
        return convert(fact)
    except (KeyError, ValueError):
        return Unavailable(f"NVML said {fact!r}")


def _or(fact: T | Unavailable, default: T) -> T:
    return default if isinstance(fact, Unavailable) else fact
