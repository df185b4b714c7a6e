"""Reading device code against `cuobjdump -all`, inside the process and as a whole command, and of many libraries.

    python -m benchmarks.device_code LIBRARY --cuobjdump PATH [--runs 5]

LIBRARY is one of gigabytes: `libtorch_cuda.so`. cuobjdump comes with the CUDA toolkit, or with
`pip install nvidia-cuda-cuobjdump`. Ratios are of medians of one run of this program, with the file in the page cache.
"""

import argparse
import compileall
import functools
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import envdoctor
from benchmarks.timing import Sample, measure, report
from envdoctor.binary.image import read_image
from envdoctor.binary.reader import open_file
from envdoctor.model.facts import Absence, Environment, PathSource, SearchEntry, Unavailable
from envdoctor.probes.libraries import find_device_code
from envdoctor.probes.library_files import find_libraries

_SMALL_LIBRARY = Path(__file__).parents[1] / "fixtures" / "binaries" / "rdc" / "librdc.so"
_COUNTS = (250, 500, 1000, 2000)
_CUOBJDUMP = "cuobjdump -all"
_SCAN = "envdoctor scan"


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump"), required=shutil.which("cuobjdump") is None)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()

    # Users have bytecode; a checkout run with PYTHONDONTWRITEBYTECODE has none, which would be measured instead.
    compileall.compile_dir(Path(envdoctor.__file__).parent, quiet=1)
    scan = [str(Path(sys.executable).parent / "envdoctor"), "scan", str(arguments.library)]
    commands = {_CUOBJDUMP: [arguments.cuobjdump, "-all", str(arguments.library)], _SCAN: scan}
    samples = measure(commands, runs=arguments.runs)
    report(samples)

    inside = median_of(lambda: read_once(arguments.library), arguments.runs * 10)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"inside the process: {inside * 1e3:.1f} ms; peak memory of this process {peak:.0f} MiB")
    print(f"cuobjdump takes {wall(samples[_CUOBJDUMP]) / inside:.0f} times as long as reading inside the process")
    print(f"cuobjdump takes {wall(samples[_CUOBJDUMP]) / wall(samples[_SCAN]):.0f} times as long as `envdoctor scan`")
    measure_many(arguments.runs)


def wall(samples: list[Sample]) -> float:
    """Return the median wall time."""
    return statistics.median(sample.wall for sample in samples)


def median_of(call: Callable[[], None], runs: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median duration of a call."""
    durations = []
    for _ in range(runs):
        start = clock()
        call()
        durations.append(clock() - start)
    return statistics.median(durations)


def read_once(library: Path) -> None:
    """Read the device code of one library."""
    with open_file(library) as reader:
        read_image(reader)


def measure_many(runs: int) -> None:
    """Read environments of more and more libraries: the processor time for each must stay the same."""
    with tempfile.TemporaryDirectory() as folder:
        for count in _COUNTS:
            site_packages = Path(folder, f"{count}", "site-packages")
            fill(site_packages, count)
            seconds = median_of(functools.partial(read_all, bare(site_packages)), runs, time.process_time)
            print(f"{count} libraries: {seconds:.3f} s of processor time, {seconds / count * 1e6:.0f} us each")


def read_all(environment: Environment) -> None:
    """Read the device code of an environment."""
    no_torch = Unavailable("torch is not installed", Absence.NOT_APPLICABLE)
    find_device_code(find_libraries(environment, no_torch), (), no_torch, deep=False)


def fill(site_packages: Path, count: int) -> None:
    """Make packages of ten extension modules."""
    for number in range(count):
        package = site_packages / f"package{number // 10}"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        shutil.copyfile(_SMALL_LIBRARY, package / f"_module{number}.so")


def bare(site_packages: Path) -> Environment:
    """Describe a folder of packages."""
    return Environment(
        interpreter=Unavailable("bare"),
        prefix=str(site_packages),
        kind="bare site-packages",
        chosen_because="the benchmark",
        python_version=(3, 11),
        implementation="cpython",
        platform="linux-x86_64",
        extension_suffixes=(),
        path_source=PathSource.FILES,
        search_path=(SearchEntry(path=str(site_packages), origin="site-packages"),),
        user_site_enabled=False,
        system_site_packages=False,
    )


if __name__ == "__main__":
    main()
