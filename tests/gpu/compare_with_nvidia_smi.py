"""Compares the facts that `envdoctor collect` wrote with what nvidia-smi says of the same machine.

Exits with 1 where they differ. Only what does not change by itself is compared: no temperatures, clocks or free memory.
"""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_SWITCH = {True: "Enabled", False: "Disabled"}
_COMPUTE_MODE = {"default": "Default", "exclusive process": "Exclusive_Process", "prohibited": "Prohibited"}

# nvidia-smi's field, and the same of a GPU among the facts in nvidia-smi's words.
FIELDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "index": lambda gpu: gpu["index"],
    "name": lambda gpu: gpu["name"],
    "uuid": lambda gpu: gpu["uuid"],
    "pci.bus_id": lambda gpu: gpu["pci_bus_id"],
    "compute_cap": lambda gpu: "{}.{}".format(*gpu["compute_capability"]),
    "memory.total": lambda gpu: round(gpu["health"]["total_memory"] / 2**20),
    "compute_mode": lambda gpu: _COMPUTE_MODE[gpu["health"]["compute_mode"]],
    "persistence_mode": lambda gpu: _SWITCH[gpu["health"]["persistence_mode"]],
    "mig.mode.current": lambda gpu: _SWITCH[gpu["health"]["mig_enabled"]],
    "ecc.mode.current": lambda gpu: _SWITCH[gpu["health"]["ecc_enabled"]],
    "ecc.errors.uncorrected.volatile.total": lambda gpu: gpu["health"]["ecc_uncorrected"],
    "power.limit": lambda gpu: f"{gpu['health']['power_limit']:.2f}",
    "power.default_limit": lambda gpu: f"{gpu['health']['power_default_limit']:.2f}",
    "pcie.link.width.current": lambda gpu: gpu["health"]["pcie_width"],
    "pcie.link.width.max": lambda gpu: gpu["health"]["pcie_max_width"],
    "pcie.link.gen.max": lambda gpu: gpu["health"]["pcie_max_generation"],
}
_MISSING = {"[N/A]", "[Not Supported]", "N/A"}


def main(facts_file: str) -> int:
    """Write every comparison and return how the process should end."""
    facts = json.loads(Path(facts_file).read_text(encoding="utf-8"))["facts"]
    compared = [*compare_driver(facts), *compare_gpus(facts)]
    for name, ours, theirs in compared:
        verdict = "same" if ours == theirs else f"DIFFERENT: nvidia-smi says {theirs}"
        sys.stdout.write(f"{name:45} {ours:45} {verdict}\n")
    return int(any(ours != theirs for _, ours, theirs in compared))


def compare_driver(facts: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    banner = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=True).stdout
    driver = facts["driver"]
    for name, pattern, ours in (
        ("driver", r"Driver Version: (\S+)", driver["release_version"]["text"]),
        ("CUDA", r"CUDA Version: (\S+)", "{}.{}".format(*driver["cuda_version"])),
    ):
        found = re.search(pattern, banner)
        yield name, ours, found[1] if found else "not told"


def compare_gpus(facts: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = list(csv.reader(answer.splitlines(), skipinitialspace=True))
    yield "number of GPUs", str(len(facts["gpus"])), str(len(rows))
    for gpu, row in zip(facts["gpus"], rows, strict=False):
        for (field, translate), theirs in zip(FIELDS.items(), row, strict=True):
            yield f"GPU {gpu['index']} {field}", say(translate, gpu), "missing" if theirs in _MISSING else theirs


def say(translate: Callable[[dict[str, Any]], Any], gpu: dict[str, Any]) -> str:
    """Say a fact in nvidia-smi's words; a fact that is missing is an object with its reason."""
    try:
        value = translate(gpu)
    except TypeError:
        return "missing"
    return "missing" if isinstance(value, dict) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
