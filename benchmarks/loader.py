"""Predicting the dynamic loader: the process before and after `import torch`, and each library opened in it.

    python -m benchmarks.loader PREFIX [--libraries DIR ...] [--runs 7]

PREFIX is an environment with a CUDA torch. Every run is a process of its own, since what was read once is kept, with
the files in the page cache; a bare start of Python is measured between them. Times are medians of processor time, in
milliseconds: nothing is waited for, but for other jobs of the machine.
"""

import argparse
import compileall
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import envdoctor
from benchmarks.timing import BARE_PYTHON, measure
from envdoctor.binary.binding import Binding
from envdoctor.model.facts import Environment, TorchBuild, Unavailable
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environ import read_variables
from envdoctor.probes.environment import find_environment
from envdoctor.probes.loader_process import Processes, start_processes
from envdoctor.probes.torch_build import read_torch_build
from tools.verify_loader import find_all_libraries


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--libraries", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--once", action="store_true", help="measure in this process, and print JSON")
    arguments = parser.parse_args()

    if arguments.once:
        print(json.dumps(measure_once(arguments.prefix, arguments.libraries)))
        return
    # Users have bytecode; a checkout run with PYTHONDONTWRITEBYTECODE has none, which would be measured instead.
    compileall.compile_dir(Path(envdoctor.__file__).parent, quiet=1)
    command = [sys.executable, "-m", "benchmarks.loader", *sys.argv[1:], "--once"]
    bare: list[float] = []
    runs: list[dict[str, float]] = []
    for _ in range(arguments.runs):
        bare += (sample.cpu * 1e3 for sample in measure({}, runs=1)[BARE_PYTHON])
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    print(f"{'a bare start of Python':36} {statistics.median(bare):8.1f}")
    for name in runs[0]:
        print(f"{name:36} {statistics.median(run[name] for run in runs):8.1f}")


def measure_once(prefix: Path, folders: list[Path]) -> dict[str, float]:
    """Predict everything once."""
    environment = find_environment(python="", prefix=str(prefix))
    torch = read_torch_build(environment, find_distributions(environment))
    assert isinstance(torch, TorchBuild), torch
    libraries = list(dict.fromkeys(find_all_libraries(environment, torch, folders)))

    begin = time.process_time()
    open_without_look_ups(environment, torch)
    start = time.process_time()
    processes = start_processes(environment, torch, read_variables())
    started = time.process_time()
    durations = open_all(processes, libraries)
    return {
        "the process without look-ups": (start - begin) * 1e3,
        "the process after `import torch`": (started - start) * 1e3,
        "a library, mean": statistics.mean(durations) * 1e3,
        "a library, longest": max(durations) * 1e3,
        "all libraries": sum(durations) * 1e3,
        "libraries": len(durations),
    }


def open_without_look_ups(environment: Environment, torch: TorchBuild) -> None:
    """Start the process, and load what `import torch` loads, without looking up a single symbol of it."""
    processes = start_processes(environment, Unavailable("opened below"), read_variables())
    assert isinstance(processes, Processes), processes
    process = processes.alone.copy()
    modules = [Path(torch.root, f"_C{suffix}") for suffix in environment.extension_suffixes]
    for path in (Path(torch.root, "lib", "libtorch_global_deps.so"), *filter(Path.is_file, modules)):
        assert process.open(str(path), is_global=True, binding=Binding.NEVER) is None


def open_all(processes: Processes | Unavailable, libraries: list[str]) -> list[float]:
    """Return the seconds that each library took."""
    assert isinstance(processes, Processes), processes
    assert processes.after_torch, processes.torch_failure
    durations = []
    for library in libraries:
        start = time.process_time()
        processes.after_torch.copy().open(library)
        durations.append(time.process_time() - start)
    return durations


if __name__ == "__main__":
    main()
