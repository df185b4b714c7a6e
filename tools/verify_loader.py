"""Ask the dynamic loader about every library of a real environment, and compare it with what envdoctor predicts.

    python -m tools.verify_loader ENV [--libraries DIR ...] [--alone]

ENV is a venv, a conda environment or an interpreter, of this machine. After `import torch`, which is asked about
itself, every library of ENV, and every one below the folders DIR, is opened in a child of its own with RTLD_NOW and
RTLD_LOCAL. With `--alone`, and where there is no torch or it cannot be imported, nothing is imported before. What the
loader says must be what is predicted, string for string; exit code 1 when anything differs. Libraries whose own code
crashes, hangs or raises while it is opened are listed apart.

Opening a library runs its code: verify no environment that you would not run.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envdoctor.binary.link import Process
from envdoctor.binary.reader import BinaryError
from envdoctor.errors import EnvdoctorError, ProbeError
from envdoctor.model.facts import Environment, TorchBuild, Unavailable
from envdoctor.model.loading import BUS_ERROR, LoadFailure
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environ import read_variables
from envdoctor.probes.environment import find_environment
from envdoctor.probes.library_files import LINUX_LIBRARY, find_libraries
from envdoctor.probes.loader_process import Processes, start_processes
from envdoctor.probes.torch_build import read_torch_build

_CHILD = Path(__file__).with_name("loader_child.py")
_LOADED, _REFUSED, _CRASHED = "loaded", "refused", "crashed"
_IMPORT_TORCH = "import torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of opening one library."""

    outcome: str  # "loaded", "refused" by the loader, or what its own code did: "failed", "crashed", "hung"
    words: str

    def __str__(self) -> str:
        return self.words if self.outcome == _REFUSED else f"{self.outcome} {self.words}".rstrip()


# --- asking ------------------------------------------------------------------------------------------------------


def ask_loader(
    interpreter: str, libraries: Sequence[str], *, import_torch: bool, seconds: float = 60
) -> dict[str, Answer]:
    """Ask about `import torch`, if it is to come before, and about every library unless that ends the process.

    Raises:
        ProbeError: the interpreter ends before it has answered.

    """
    asked = [_IMPORT_TORCH, *libraries] if import_torch else libraries
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "answers")
        told.touch()
        command = [interpreter, str(_CHILD), "torch" if import_torch else "", str(seconds), str(told)]
        # What imports print is no part of the report.
        done = subprocess.run(command, input=json.dumps(libraries), stdout=subprocess.DEVNULL, text=True, check=False)
        lines = told.read_text("ascii").splitlines()
    if import_torch and not lines:
        return {_IMPORT_TORCH: Answer(outcome=_CRASHED, words=_ending(done.returncode))}
    if len(lines) != len(asked):
        raise ProbeError(f"`{interpreter}` ended with status {done.returncode} after {len(lines)} answers")
    answers = (Answer(outcome=outcome, words=words) for outcome, words in map(json.loads, lines))
    return dict(zip(asked, answers, strict=True))


def _ending(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def find_all_libraries(
    environment: Environment, torch: TorchBuild | Unavailable, folders: Iterable[Path]
) -> Iterator[str]:
    """Name the libraries of an environment and those below other folders."""
    yield from (library.path for library in find_libraries(environment, torch).libraries)
    for folder in folders:
        files = (path for path in sorted(folder.rglob("*.so*")) if LINUX_LIBRARY.search(path.name))
        yield from (str(path.absolute()) for path in files if path.is_file())


# --- comparing ---------------------------------------------------------------------------------------------------


def predict(processes: Processes, asked: Iterable[str], *, after_torch: bool) -> dict[str, Answer]:
    """Predict the answer to everything that was asked."""
    process = processes.after_torch if after_torch else processes.alone
    if process is None:  # `import torch` was predicted to fail, and did not
        return {_IMPORT_TORCH: _predicted(processes.torch_failure)}
    libraries = {path: _predict(process, path) for path in asked if path != _IMPORT_TORCH}
    return {_IMPORT_TORCH: _predicted(processes.torch_failure), **libraries}


def _predict(process: Process, path: str) -> Answer:
    try:
        return _predicted(process.copy().open(path))
    except BinaryError as exc:
        return Answer(outcome="unreadable", words=str(exc))


def _predicted(failure: LoadFailure | None) -> Answer:
    if failure is None:
        return Answer(outcome=_LOADED, words="")
    if failure.words == BUS_ERROR:
        return Answer(outcome=_CRASHED, words="SIGBUS")
    return Answer(outcome=_REFUSED, words=failure.words)


def compare(predicted: dict[str, Answer], told: dict[str, Answer]) -> int:
    """Print what differs, and what was not for the loader to say; return how many differ."""
    different = 0
    for name, answer in told.items():
        expected = predicted.get(name, "nothing, because `import torch` was expected to fail")
        if answer == expected:
            continue
        if answer.outcome not in {_LOADED, _REFUSED}:
            print(f"{answer.outcome.upper()} {name}: {answer.words} (predicted: {expected})")
        else:
            different += 1
            print(f"DIFFERENT {name}\n  loader:    {answer}\n  predicted: {expected}")
    outcomes = Counter(answer.outcome for answer in told.values())
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    print(f"{len(told)} asked: {counts}; {different} different from the prediction")
    return different


def verify(environment: Environment, folders: Sequence[Path], *, alone: bool) -> int:
    """Ask, predict and compare; return how many answers differ.

    Raises:
        ProbeError: the interpreter cannot be asked, or its loader cannot be predicted.

    """
    if isinstance(environment.interpreter, Unavailable):
        raise ProbeError(environment.interpreter.reason)
    torch = read_torch_build(environment, find_distributions(environment))
    processes = start_processes(environment, torch, read_variables())
    if isinstance(processes, Unavailable):
        raise ProbeError(f"the loader cannot be predicted: {processes.reason}")
    libraries = list(dict.fromkeys(find_all_libraries(environment, torch, folders)))
    import_torch = not alone and not isinstance(torch, Unavailable)

    told = ask_loader(environment.interpreter, libraries, import_torch=import_torch)
    after_torch = import_torch and told[_IMPORT_TORCH].outcome == _LOADED
    if import_torch and not after_torch:  # it left something behind, which no job goes on with
        told |= ask_loader(environment.interpreter, libraries, import_torch=False)
    return compare(predict(processes, told, after_torch=after_torch), told)


def main() -> int:
    """Parse the command line, verify, report; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", metavar="ENV")
    parser.add_argument("--libraries", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--alone", action="store_true")
    arguments = parser.parse_args()

    try:
        environment = find_environment(python=arguments.environment, prefix="")
        return min(1, verify(environment, arguments.libraries, alone=arguments.alone))
    except EnvdoctorError as exc:
        print(exc, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
