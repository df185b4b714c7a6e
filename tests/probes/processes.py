"""Other processes, watched from a test."""

import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE_SECONDS = 10


def until(condition: Callable[[], bool]) -> bool:
    """Wait for what happens in another process, but not for ever."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def ends(pid: str) -> bool:
    """Whether a process ends; one that its parent has not yet waited for has ended."""
    return until(lambda: _state(pid) in {"", "Z"})


def children_of(pid: int) -> list[str]:
    """The processes that a process has started and not yet waited for."""
    return [entry.name for entry in Path("/proc").glob("[0-9]*") if _parent(entry.name) == str(pid)]


def _state(pid: str) -> str:
    return next(iter(_fields(pid)), "")


def _parent(pid: str) -> str:
    return next(iter(_fields(pid)[1:]), "")


def _fields(pid: str) -> list[str]:
    """What proc(5) says of a process, from its state on."""
    try:
        return Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
