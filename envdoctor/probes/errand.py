"""Facts that a copy of this process finds out, on another processor, while this one goes on."""

import json
import os
import select
import signal
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from envdoctor.errors import ProbeError
from envdoctor.model.codec import from_json, to_json
from envdoctor.model.facts import Facts
from envdoctor.probes.children import uninterrupted

_PATIENCE_SECONDS = 300  # a cold network file system takes minutes, a dead one forever
_CHUNK = 1 << 16
_THREADS = "/proc/self/task"


class Errand:
    """Some of the facts, found out beside; here where no copy can be made, or where the copy dies."""

    def __init__(self, find: Callable[[], Facts]) -> None:
        self._find = find
        self._deadline = time.monotonic() + _PATIENCE_SECONDS
        self._copy: _Copy | None = None
        # A copy has one thread, and the locks of all others for ever.
        if _is_single_threaded():
            with suppress(OSError):
                self._copy = _Copy(find)

    def finish(self) -> Facts:
        """Wait for the facts.

        Raises:
            ProbeError: they take too long.

        """
        answer = self._copy.listen(self._deadline) if self._copy else b""
        # Whatever it died of happens here again, and is seen.
        return from_json(Facts, json.loads(answer)) if answer else self._find()

    def stop(self) -> None:
        """End the copy, if there is one."""
        if self._copy:
            self._copy.end()


class _Copy:
    """A copy of this process that says what it finds on a pipe; one that nobody holds any more is ended."""

    def __init__(self, find: Callable[[], Facts]) -> None:
        self._pipe, pipe = os.pipe()
        try:
            with uninterrupted():
                self._number = os.fork()
                if not self._number:
                    _run(find, pipe)
                self.end = weakref.finalize(self, _end, self._number, self._pipe)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(pipe)

    def listen(self, deadline: float) -> bytes:
        """Return what it found, nothing when it died before it had said all."""
        said = bytearray()
        waiting = select.poll()
        waiting.register(self._pipe, select.POLLIN)
        while not said.endswith(b"\n"):
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise ProbeError(f"given up after {_PATIENCE_SECONDS} seconds")
            if not (chunk := os.read(self._pipe, _CHUNK)):
                return b""
            said += chunk
        return bytes(said)


def _run(find: Callable[[], Facts], pipe: int) -> None:
    """Be the copy: nothing that the original began may be ended, written or cleared away a second time."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        with open(pipe, "wb", closefd=False) as answer:
            answer.write(json.dumps(to_json(find())).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _end(number: int, pipe: int) -> None:
    os.close(pipe)
    with suppress(OSError):  # SIGCHLD is ignored, as some daemons leave it to what they start: it is cleared away
        os.kill(number, signal.SIGKILL)
        # A process inside a hung file system does not die: it is left behind.
        for _ in range(1000):
            if os.waitpid(number, os.WNOHANG)[0]:
                break
            time.sleep(0.001)


def _is_single_threaded() -> bool:
    try:
        return len(os.listdir(_THREADS)) == 1
    except OSError:
        return False
