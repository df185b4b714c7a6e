"""Programs that are asked one thing: none keeps its caller waiting, fills the memory, or is left behind."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    """A running program, to be finished or stopped."""

    def __init__(
        self, command: Sequence[str | Path], patience: float, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the program.

        Raises:
            OSError: it does not start.

        """
        self._patience = patience
        self._deadline = time.monotonic() + patience
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # whatever it starts ends with it
        )

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
        if self._process.returncode is not None:
            return
        # Not waited for until now, so its number is not yet another's.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        # A process inside a hung driver does not die: it is left behind.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)

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
