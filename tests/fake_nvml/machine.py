"""Machines with NVIDIA GPUs that are not there: a libnvidia-ml.so.1 compiled from C, behind the real nvidia-ml-py.

The fixture `fake_nvml` turns a `FakeMachine` into the environment variables of a child process:

    def test_something(fake_nvml: Install) -> None:
        machine = FakeMachine(driver_version="550.54.15", cuda_version=12040, gpus=(A_4090, A_4090))
        subprocess.run(["envdoctor", "check"], env=os.environ | fake_nvml(machine))

Faults are lines of the file that the library reads (fake_nvml.c): "fail nvmlInitWithFlags 18",
"fail nvmlDeviceGetName 15 1 0" (from the first call on, on GPU 0), "hang nvmlDeviceGetTemperature 60",
"crash nvmlDeviceGetEccMode", "exit nvmlDeviceGetCount_v2". They name the functions as the library exports them.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

MIB = 1 << 20

Install = Callable[["FakeMachine"], dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class FakeGpu:
    """One GPU, a healthy RTX 4090 at first; None is what it does not support.

    The numbers are those of NVML: bytes, milliwatts, and the enumerations of nvml.h.
    """

    name: str = "NVIDIA GeForce RTX 4090"
    capability: int | None = 89
    brand: int | None = 5
    uuid: str = ""  # made from the place of the GPU
    bus_id: str = ""  # likewise
    memory: int | None = 24564 * MIB
    memory_free: int | None = 24111 * MIB
    compute_mode: int | None = 0
    mig_mode: int | None = None
    ecc_mode: int | None = None
    ecc_uncorrected: int | None = None
    retired_pages_pending: int | None = None
    remapped_rows_pending: int | None = None
    remapped_rows_failed: int | None = None
    power_limit: int | None = 450_000
    power_default_limit: int | None = 450_000
    temperature: int | None = 41
    clock_event_reasons: int | None = 1
    pcie_width: int | None = 16
    pcie_max_width: int | None = 16
    pcie_generation: int | None = 1
    pcie_max_generation: int | None = 4
    persistence_mode: int | None = 0
    bar1_memory: int | None = 32768 * MIB
    process: tuple[str, ...] = ()  # "pid bytes"
    mig_instance: tuple[str, ...] = ()  # "MIG-uuid bytes name"

    def at(self, index: int) -> "FakeGpu":
        """Give it the identity that belongs to a place in the machine, where it has none."""
        uuid = self.uuid or f"GPU-00000000-0000-4000-8000-{index:012x}"
        return replace(self, uuid=uuid, bus_id=self.bus_id or f"00000000:{index + 1:02X}:00.0")

    def lines(self) -> Iterator[str]:
        """Describe it as fake_nvml.c reads it."""
        yield "gpu"
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, tuple):
                yield from (f"{setting.name} {item}" for item in value)
            elif value is not None:
                yield f"{setting.name} {value}"


A_4090 = FakeGpu()
A_3090 = FakeGpu(name="NVIDIA GeForce RTX 3090", capability=86, power_limit=350_000, power_default_limit=350_000)
AN_A100 = FakeGpu(
    name="NVIDIA A100-SXM4-80GB",
    capability=80,
    brand=14,
    memory=81920 * MIB,
    memory_free=81000 * MIB,
    mig_mode=0,
    ecc_mode=1,
    ecc_uncorrected=0,
    remapped_rows_pending=0,
    remapped_rows_failed=0,
    power_limit=400_000,
    power_default_limit=400_000,
    persistence_mode=1,
    bar1_memory=131072 * MIB,
)
A_P100 = FakeGpu(
    name="Tesla P100-PCIE-16GB",
    capability=60,
    brand=2,
    memory=16384 * MIB,
    memory_free=16280 * MIB,
    ecc_mode=1,
    ecc_uncorrected=0,
    retired_pages_pending=0,
    power_limit=250_000,
    power_default_limit=250_000,
    pcie_max_generation=3,
)


@dataclass(frozen=True, kw_only=True)
class FakeMachine:
    """A machine as its driver shows it."""

    gpus: tuple[FakeGpu, ...] = (A_4090,)
    driver_version: str = "580.65.06"
    cuda_version: int = 13000
    device_count: int = -1  # what NVML says, if not the number of `gpus`
    mig_slots: int = 7
    peer_status: int = 1  # NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: what consumer cards answer
    faults: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # functions that this driver is too old to have
    libraries: tuple[str, ...] = ("libnvidia-ml.so", "libcuda.so")

    def text(self) -> str:
        """Describe it as fake_nvml.c reads it."""
        words = ("driver_version", "cuda_version", "device_count", "mig_slots", "peer_status")
        machine = [f"{word} {getattr(self, word)}" for word in words]
        gpus = [line for index, gpu in enumerate(self.gpus) for line in gpu.at(index).lines()]
        return "\n".join([*machine, *self.faults, *gpus]) + "\n"


def compile_library(compiler: str, target: Path, missing: tuple[str, ...]) -> None:
    """Compile fake_nvml.c; functions that are *missing* get another name."""
    renamed = [f"-D{function}=absent_{function}" for function in missing]
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run([compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", *renamed, "-o", target, source], check=True)


def install(machine: FakeMachine, library: Path, folder: Path) -> dict[str, str]:
    """Lay out the driver's libraries as a driver package does, and say how to find them."""
    settings = folder / "machine.txt"
    settings.write_bytes(machine.text().encode(errors="surrogateescape"))
    libraries = folder / "lib"
    libraries.mkdir()
    for name in machine.libraries:
        shutil.copy(library, libraries / f"{name}.{machine.driver_version}")
        (libraries / f"{name}.1").symlink_to(f"{name}.{machine.driver_version}")
    return {"LD_LIBRARY_PATH": str(libraries), "FAKE_NVML": str(settings)}
