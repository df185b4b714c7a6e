"""Programs that are asked one thing: none keeps its caller waiting, fills the memory, or is left behind."""

import os
import selectors
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_MOST_OUTPUT = 16 << 20
_CHUNK = 1 << 16
# Between two looks at whether a silent program has ended.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What came of a child."""

    answer: bytes  # standard output; what was said before the end stands
    complaint: str  # the last line of standard error
    status: int  # as `subprocess` gives it: negative numbers are signals
    given_up: str  # why its end was not waited for, "" when it ended by itself


class Child:
    """A running program, to be finished or stopped; one that nobody holds any more is stopped."""

    def __init__(
        self, command: Sequence[str | Path], patience: float, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the program.

        Raises:
            OSError: it does not start.

        """
        self._patience = patience
        self._deadline = time.monotonic() + patience
        with uninterrupted():
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # whatever it starts ends with it
            )
            self._end = weakref.finalize(self, _end, self._process)

    def finish(self) -> Ending:
        """Listen until the program ends, has been running for too long, or has said too much."""
        assert self._process.stdout
        assert self._process.stderr
        heard = {self._process.stdout: bytearray(), self._process.stderr: bytearray()}
        try:
            given_up = self._listen(heard)
        finally:
            self.stop()
        answer, complaints = heard.values()
        return Ending(
            answer=bytes(answer),
            complaint=complaints.decode(errors="replace").strip().rpartition("\n")[2],
            status=self._process.returncode or 0,
            given_up=given_up,
        )

    def stop(self) -> None:
        """End the program, if it still runs, with all that it started."""
        self._end()

    def _listen(self, heard: dict[IO[bytes], bytearray]) -> str:
        """Fill *heard*; return why the listening was given up, "" at the end of the program."""
        with selectors.DefaultSelector() as selector:
            for pipe, said in heard.items():
                selector.register(pipe, selectors.EVENT_READ, said)
            pause = _SHORTEST_PAUSE
            while True:
                remaining = self._deadline - time.monotonic()
                ready = selector.select(max(0.0, min(remaining, pause)))
                pause = _SHORTEST_PAUSE if ready else min(2 * pause, _LONGEST_PAUSE)
                for key, _ in ready:
                    if chunk := os.read(key.fd, _CHUNK):
                        key.data.extend(chunk)
                    else:
                        selector.unregister(key.fileobj)
                # Once it has ended, only a process that it left behind can hold the pipes open.
                if self._has_ended() and not (ready and selector.get_map()):
                    return ""
                if sum(map(len, heard.values())) > _MOST_OUTPUT:
                    return f"given up after {_MOST_OUTPUT >> 20} MB of output"
                if remaining <= 0 and not ready:
                    return f"given up after {self._patience:g} seconds"

    def _has_ended(self) -> bool:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._process.pid, options) is not None
        except ChildProcessError:  # SIGCHLD is ignored, as some daemons leave it to what they start
            return True


def _end(process: subprocess.Popen[bytes]) -> None:
    # Not waited for until now, so its number is not yet another's.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
    # A process inside a hung driver does not die: it is left behind.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put interruptions off: one that comes while a program starts would leave it running, known to nobody."""
    if threading.current_thread() is not threading.main_thread():  # Python interrupts no other
        yield
        return
    came: list[int] = []
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for interruption in came:
            signal.raise_signal(interruption)
