"""Driver and GPUs through NVML, asked in a child with a deadline: on a sick host NVML hangs or crashes its caller."""

import importlib.util
import signal
import sys
from pathlib import Path

from envdoctor.probes.children import Child, Ending
from envdoctor.probes.nvml_answer import NvmlAnswer, Transcript, read_answer

# Without persistence mode NVML wakes the GPUs one after the other, in about a second each; hosts have up to 16.
DEADLINE_SECONDS = 15.0
_CHILD = Path(__file__).with_name("nvml_child.py")


class Inquiry:
    """NVML being asked, while the caller does something else; to be finished or stopped."""

    def __init__(self, child: Child | None, failure: str = "") -> None:
        self._child = child
        self._failure = failure

    def finish(self) -> NvmlAnswer:
        """Wait for the answer, at most until the deadline; what NVML told before it hung or crashed stands."""
        if self._child is None:
            return read_answer(Transcript.parse(b"", self._failure))
        ending = self._child.finish()
        return read_answer(Transcript.parse(ending.answer, ending.given_up or _describe_end(ending)))

    def stop(self) -> None:
        """Give the answer up, if it was not waited for."""
        if self._child:
            self._child.stop()


def start_inquiry(deadline: float = DEADLINE_SECONDS) -> Inquiry:
    """Start asking NVML and return at once; no CUDA context is created."""
    # -I and -S: neither the caller's folder, nor PYTHONPATH, nor site-packages can get in the way or cost time.
    command = [sys.executable, "-I", "-S", str(_CHILD), _find_bindings()]
    try:
        return Inquiry(Child(command, deadline))
    except OSError as exc:
        return Inquiry(None, f"the program that asks it did not start: {exc}")


def _find_bindings() -> str:
    """Return the folder to import nvidia-ml-py from; an older project of the same import name is a package."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return ""
    return str(Path(spec.origin).parents[1 if spec.submodule_search_locations else 0])


def _describe_end(ending: Ending) -> str:
    if ending.status < 0:
        return f"it crashed ({signal.strsignal(-ending.status)})"
    return f"the program that asks it ended with {ending.status}" + (
        f": {ending.complaint}" if ending.complaint else ""
    )
