"""The program that asks NVML, run as a child: a sick driver can hang or crash whoever calls it.

Run as ``python -I -S nvml_child.py FOLDER_OF_PYNVML``. It writes JSON, two lines per call. First the question,
``[function, gpu, ...]``; then what came back: ``{"value": ...}``, ``{"error": [number, name, words]}`` from NVML, or
``{"mishap": words}`` from nvidia-ml-py itself. A question without an answer is where NVML hung or crashed, and
``"end"`` is the last line.

Nothing is interpreted here and nothing of envdoctor is imported: the start of this process is on the clock.
No CUDA context is created: NVML needs none.
"""

import ctypes
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, TextIO

LIBRARY = "libnvidia-ml.so.1"

# Numbers of nvml.h. Those of nvidia-ml-py will not do: its NVML_P2P_CAPS_INDEX_READ is the tuple (0,).
LIBRARY_NOT_FOUND = (12, "NVML_ERROR_LIBRARY_NOT_FOUND")
TEMPERATURE_OF_GPU = 0
UNCORRECTED, VOLATILE = 1, 0
PEER_READ, PEER_WRITE = 0, 1
# Of GPUs in a machine, and of slices of a GPU. A sick driver may say anything.
POSSIBLE_COUNTS = range(257)
PR_SET_PDEATHSIG = 1  # prctl(2)

# A function, its arguments after the device, the fields taken from the structure that it returns.
Question = tuple[str, tuple[int, ...], tuple[str, ...]]
IDENTITY: tuple[Question, ...] = (
    ("nvmlDeviceGetName", (), ()),
    ("nvmlDeviceGetUUID", (), ()),
    ("nvmlDeviceGetCudaComputeCapability", (), ()),
    ("nvmlDeviceGetPciInfo", (), ("busId",)),
    ("nvmlDeviceGetBrand", (), ()),
)
STATE: tuple[Question, ...] = (
    ("nvmlDeviceGetComputeMode", (), ()),
    ("nvmlDeviceGetMemoryInfo", (), ("total", "free")),
    ("nvmlDeviceGetComputeRunningProcesses_v3", (), ("pid", "usedGpuMemory")),
    ("nvmlDeviceGetEccMode", (), ()),
    ("nvmlDeviceGetTotalEccErrors", (UNCORRECTED, VOLATILE), ()),
    ("nvmlDeviceGetRetiredPagesPendingStatus", (), ()),
    ("nvmlDeviceGetRemappedRows", (), ()),
    ("nvmlDeviceGetPowerManagementLimit", (), ()),
    ("nvmlDeviceGetPowerManagementDefaultLimit", (), ()),
    ("nvmlDeviceGetTemperature", (TEMPERATURE_OF_GPU,), ()),
    ("nvmlDeviceGetCurrentClocksEventReasons", (), ()),
    ("nvmlDeviceGetCurrPcieLinkWidth", (), ()),
    ("nvmlDeviceGetMaxPcieLinkWidth", (), ()),
    ("nvmlDeviceGetCurrPcieLinkGeneration", (), ()),
    ("nvmlDeviceGetMaxPcieLinkGeneration", (), ()),
    ("nvmlDeviceGetPersistenceMode", (), ()),
    ("nvmlDeviceGetBAR1MemoryInfo", (), ("bar1Total",)),
)
MIG_INSTANCE: tuple[Question, ...] = (
    ("nvmlDeviceGetUUID", (), ()),
    ("nvmlDeviceGetName", (), ()),
    ("nvmlDeviceGetMemoryInfo", (), ("total",)),
)
# What older drivers call the same.
OLDER_NAMES = {
    "nvmlDeviceGetComputeRunningProcesses_v3": "nvmlDeviceGetComputeRunningProcesses_v2",  # before R510
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",  # before R535
}


class Questioner:
    """Calls NVML and writes down every question before it is asked, and every answer."""

    def __init__(self, nvml: Any, records: TextIO) -> None:
        self.nvml = nvml
        self.records = records
        self.error_names = {value: name for name, value in vars(nvml).items() if name.startswith("NVML_ERROR_")}

    def ask(self, function: str, subject: tuple[int, ...], *arguments: Any, fields: tuple[str, ...] = ()) -> Any:
        """Return what NVML returns, True where that is nothing, None where it fails.

        *subject* tells which GPU the question is about; *fields* are what is written of a structure.
        """
        write(self.records, [function, *subject])
        try:
            value = getattr(self.nvml, function)(*arguments)
            record = recordable(value, fields)
        except self.nvml.NVMLError as exc:
            name = self.error_names.get(exc.value, f"NVML_ERROR_{exc.value}")
            write(self.records, {"error": [exc.value, name, str(exc)]})
            return None
        except Exception as exc:  # noqa: BLE001  bytes that are no text, functions that were dropped: ask on
            write(self.records, {"mishap": f"{type(exc).__name__}: {exc}"})
            return None
        write(self.records, {"value": record})
        return True if value is None else value

    def ask_all(self, questions: tuple[Question, ...], subject: tuple[int, ...], device: Any) -> None:
        """Ask a table of questions about one device."""
        for function, arguments, fields in questions:
            value = self.ask(function, subject, device, *arguments, fields=fields)
            if value is None and (older := OLDER_NAMES.get(function)):
                self.ask(older, subject, device, *arguments, fields=fields)


def recordable(value: Any, fields: tuple[str, ...]) -> Any:
    """Take the fields of a structure, or of each one in a list; a handle is only known to exist."""
    if fields and isinstance(value, list):
        return [recordable(item, fields) for item in value]
    if fields:
        return [getattr(value, field) for field in fields]
    return value if isinstance(value, (int, str, list, tuple)) else True


def write(records: TextIO, record: Any) -> None:
    """Write one line that survives whatever happens to this process next."""
    records.write(json.dumps(record, separators=(",", ":")) + "\n")
    records.flush()


def load_library(records: TextIO) -> bool:
    """Load NVML ahead of nvidia-ml-py, which hides the loader's reason and the path."""
    write(records, ["dlopen"])
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as exc:
        write(records, {"error": [*LIBRARY_NOT_FOUND, str(exc)]})
        return False
    write(records, {"value": next(mapped_paths("libnvidia-ml.so"), LIBRARY)})
    return True


def mapped_paths(part: str) -> Iterator[str]:
    """Yield the files mapped into this process whose path holds *part* (proc(5), /proc/pid/maps: the sixth field)."""
    # pathlib would take longer to import than NVML to answer.
    with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as maps:
        yield from (line.rstrip("\n").split(maxsplit=5)[5] for line in maps if part in line)


def ask_everything(questioner: Questioner) -> None:
    """Ask about the driver, then who the GPUs are, then how they are: what is needed most comes first."""
    if not questioner.ask("nvmlInit", ()):
        return
    questioner.ask("nvmlSystemGetDriverVersion", ())
    questioner.ask("nvmlSystemGetCudaDriverVersion", ())
    count = questioner.ask("nvmlDeviceGetCount", ())
    gpus = range(count if count in POSSIBLE_COUNTS else 0)
    handles = {gpu: questioner.ask("nvmlDeviceGetHandleByIndex", (gpu,), gpu) for gpu in gpus}
    devices = {gpu: handle for gpu, handle in handles.items() if handle}
    for gpu, device in devices.items():
        questioner.ask_all(IDENTITY, (gpu,), device)
    for gpu, device in devices.items():
        questioner.ask_all(STATE, (gpu,), device)
        ask_about_mig(questioner, gpu, device)
    for first, second in itertools.combinations(devices, 2):
        for direction in (PEER_READ, PEER_WRITE):
            subject = (first, second, direction)
            questioner.ask("nvmlDeviceGetP2PStatus", subject, devices[first], devices[second], direction)


def ask_about_mig(questioner: Questioner, gpu: int, device: Any) -> None:
    """Ask for the slices of a GPU; a slot that holds none answers NVML_ERROR_NOT_FOUND."""
    mode = questioner.ask("nvmlDeviceGetMigMode", (gpu,), device)
    if not mode or not mode[0]:
        return
    slots = questioner.ask("nvmlDeviceGetMaxMigDeviceCount", (gpu,), device)
    for slot in range(slots if slots in POSSIBLE_COUNTS else 0):
        if instance := questioner.ask("nvmlDeviceGetMigDeviceHandleByIndex", (gpu, slot), device, slot):
            questioner.ask_all(MIG_INSTANCE, (gpu, slot), instance)


def main() -> None:
    """Answer on what was standard output, which is closed to the library: it might print something."""
    # A hanging driver must not keep this process when the one that asks is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as records:
        os.dup2(2, 1)
        if load_library(records):
            sys.path.append(sys.argv[1])
            import pynvml

            ask_everything(Questioner(pynvml, records))
        write(records, "end")


if __name__ == "__main__":
    main()
