"""The part of `tools.verify_loader` that runs in the examined interpreter, from Python 3.6 on, and asks its loader.

    INTERPRETER loader_child.py MODULE SECONDS ANSWERS

Imports MODULE, unless that is "", and then opens each library of the JSON list on standard input in a child of its
own, so that every one starts from the same state; none gets more than SECONDS. ANSWERS gets a line of JSON for the
import and one for each library: what came of it, and what was said.
"""

import ctypes
import importlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

IMPORT_SECONDS = 300


def import_module(name: str) -> "tuple[str, str]":
    """Say what comes of an import."""
    # The folder of this file comes first on the search path, and jobs do not have it there.
    sys.path[:] = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
    try:
        importlib.import_module(name)
    except Exception as exc:  # noqa: BLE001  whatever an import raises is the answer
        refusal = _refusal_behind(exc)
        return ("refused", str(refusal)) if refusal else ("failed", f"{type(exc).__name__}: {exc}")
    return "loaded", ""


def _refusal_behind(error: "BaseException | None") -> "BaseException | None":
    """Find the loader's words: they come as ImportError from extension modules, and as OSError from ctypes.

    torch looks for libraries that the loader does not find, and raises a ValueError when it does not find them either.
    """
    while error and type(error) not in {ImportError, OSError}:
        error = error.__context__
    return error


def open_in_child(path: str, seconds: float) -> "tuple[str, str]":
    """Say what comes of opening a library, in a process that ends with the answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _open_and_end(path, writing)
    os.close(writing)
    answer = _listen(reading, seconds)
    os.close(reading)
    if answer is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if answer is None:
        return "hung", f"no answer in {seconds:g} seconds"
    if not answer:
        return "crashed", signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(
            status
        ) else f"status {status >> 8}"
    outcome, words = json.loads(answer.decode("ascii"))
    return outcome, words


def _open_and_end(path: str, writing: int) -> None:
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        answer = ("loaded", "")
    except OSError as exc:
        answer = ("refused", str(exc))
    os.write(writing, json.dumps(answer).encode("ascii"))
    os._exit(0)  # past the destructors of what was loaded


def _listen(reading: int, seconds: float) -> "bytes | None":
    """Read to the end; None when it does not come in time."""
    heard = b""
    deadline = time.monotonic() + seconds
    while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(reading, 65536)
        if not chunk:
            return heard
        heard += chunk
    return None


def main() -> None:
    """Answer for the module and for every library."""
    _, module, seconds, answers = sys.argv
    libraries = json.load(sys.stdin)
    with Path(answers).open("w", encoding="ascii") as file:
        if module:
            signal.alarm(IMPORT_SECONDS)
            print(json.dumps(import_module(module)), file=file, flush=True)
            signal.alarm(0)
        for library in libraries:
            print(json.dumps(open_in_child(library, float(seconds))), file=file, flush=True)


if __name__ == "__main__":
    main()
