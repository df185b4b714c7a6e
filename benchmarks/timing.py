"""Times whole processes in turn, so that a slow minute of the machine hits every command alike."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BARE_PYTHON = "python -c pass"


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished process: wall and processor seconds, peak memory in MiB."""

    wall: float
    cpu: float
    peak_memory: float
    exit_code: int


def run_once(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Sample:
    """Run *command* with its output thrown away; processor time counts its children too."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def measure(
    commands: Mapping[str, Sequence[str]], *, runs: int, environment: Mapping[str, str] | None = None
) -> dict[str, list[Sample]]:
    """Run every command once to warm up, then all of them in turn *runs* times; a bare Python start is one of them."""
    everything = {BARE_PYTHON: [sys.executable, "-c", "pass"], **commands}
    for command in everything.values():
        run_once(command, environment)
    samples: dict[str, list[Sample]] = {name: [] for name in everything}
    for _ in range(runs):
        for name, command in everything.items():
            samples[name].append(run_once(command, environment))
    return samples


def report(samples: Mapping[str, Sequence[Sample]], *, reference: str = BARE_PYTHON) -> None:
    """Print medians, and wall time as a ratio to *reference*."""
    base = statistics.median(sample.wall for sample in samples[reference])
    print(f"{'command':44} {'wall s':>8} {'min':>7} {'cpu s':>7} {'MiB':>6} {'ratio':>7}  exit")
    for name, runs in samples.items():
        wall = statistics.median(sample.wall for sample in runs)
        fastest = min(sample.wall for sample in runs)
        cpu = statistics.median(sample.cpu for sample in runs)
        memory = max(sample.peak_memory for sample in runs)
        codes = ",".join(str(code) for code in sorted({sample.exit_code for sample in runs}))
        print(f"{name:44} {wall:8.3f} {fastest:7.3f} {cpu:7.3f} {memory:6.0f} {wall / base:7.1f}  {codes}")
