"""Driver and GPUs through NVML, asked in a child with a deadline: on a sick host NVML hangs or crashes its caller."""

import importlib.util
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from envdoctor.probes.nvml_answer import NvmlAnswer, Transcript, read_answer

# Without persistence mode NVML wakes the GPUs one after the other, in about a second each; hosts have up to 16.
DEADLINE_SECONDS = 15.0
_CHILD = Path(__file__).with_name("nvml_child.py")


class Inquiry:
    """NVML being asked, while the caller does something else."""

    def __init__(self, child: "subprocess.Popen[bytes] | None", failure: str, deadline: float) -> None:
        self._child = child
        self._failure = failure
        self._patience = deadline
        self._end = time.monotonic() + deadline

    def finish(self) -> NvmlAnswer:
        """Wait for the answer, at most until the deadline; what NVML told before it hung or crashed stands."""
        if self._child is None:
            return read_answer(Transcript.parse(b"", self._failure))
        try:
            # A child that is done by now may still have to be read.
            remaining = max(self._end - time.monotonic(), 0.5)
            records, complaints = self._child.communicate(timeout=remaining)
        except subprocess.TimeoutExpired as exc:
            _stop(self._child)
            return read_answer(Transcript.parse(exc.stdout or b"", f"given up after {self._patience:g} seconds"))
        return read_answer(Transcript.parse(records, _describe_end(self._child.returncode, complaints)))


def start_inquiry(deadline: float = DEADLINE_SECONDS) -> Inquiry:
    """Start asking NVML and return at once; no CUDA context is created."""
    # -I and -S: neither the caller's folder, nor PYTHONPATH, nor site-packages can get in the way or cost time.
    command = [sys.executable, "-I", "-S", str(_CHILD), _find_bindings()]
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as exc:
        return Inquiry(None, f"the program that asks it did not start: {exc}", deadline)
    return Inquiry(child, "", deadline)


def _find_bindings() -> str:
    """Return the folder to import nvidia-ml-py from; an older project of the same import name is a package."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return ""
    return str(Path(spec.origin).parents[1 if spec.submodule_search_locations else 0])


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()
    # A process inside a hung driver does not die: it is left behind.
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout=1)


def _describe_end(return_code: int, complaints: bytes) -> str:
    if return_code < 0:
        return f"it crashed ({signal.strsignal(-return_code)})"
    last_line = complaints.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the program that asks it ended with {return_code}" + (f": {last_line}" if last_line else "")
