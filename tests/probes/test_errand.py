"""Facts that are found out in a copy of the process: the same as here, whatever becomes of the copy."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from envdoctor.model.facts import Facts, Unavailable
from envdoctor.probes.errand import Errand
from tests.probes.processes import children_of, ends

# Where a test runner has threads of its own, no copy is made of it.
_RUNNER = """
import os, signal, sys
from envdoctor.model.facts import Facts, Unavailable, Variable
from envdoctor.probes.errand import Errand

original = os.getpid()

def say(text):
    return Facts(variables=(Variable(name="SAID", value=text),))

def tell(facts):
    print(facts.variables[0].value, flush=True)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program of one thread."""
    command = [sys.executable, "-c", _RUNNER + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


BESIDE = "tell(Errand(lambda: say('here' if os.getpid() == original else 'beside')).finish())"

LONG = """
found = Errand(lambda: say("\\udcff" * 200_000)).finish()
print(len(found.variables[0].value))
"""

KILLED = """
def find():
    if os.getpid() != original:
        os.kill(os.getpid(), signal.SIGKILL)
    return say("here")
tell(Errand(find).finish())
"""

FAILED = """
def find():
    assert os.getpid() == original
    return say("here")
tell(Errand(find).finish())
"""

UNTOLD = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
tell(Errand(lambda: say("nobody is told")).finish())
"""

FULL = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
tell(Errand(lambda: say("no room for a pipe")).finish())
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (BESIDE, "beside"),
        (LONG, "200000"),
        (KILLED, "here"),
        (FAILED, "here"),
        (UNTOLD, "nobody is told"),
        (FULL, "no room for a pipe"),
    ],
)
def test_facts_are_told_whatever_becomes_of_the_copy(program: str, said: str) -> None:
    ending = run(program)

    assert (ending.stdout, ending.stderr, ending.returncode) == (f"{said}\n", "", 0)


def test_what_the_original_began_is_not_done_twice() -> None:
    program = """
import atexit
atexit.register(print, "the end")
print("written before", end=" ")
tell(Errand(lambda: say("found")).finish())
"""
    assert run(program).stdout == "written before found\nthe end\n"


def test_a_bug_is_seen_where_it_can_be_reported() -> None:
    ending = run("Errand(lambda: 1 // 0).finish()")

    assert ending.stderr.endswith("ZeroDivisionError: integer division or modulo by zero\n")
    assert ending.stderr.count("Traceback") == 1


def test_a_process_of_several_threads_is_not_copied() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        found = Errand(lambda: Facts(toolchain=Unavailable(f"{os.getpid()}"))).finish()
    finally:
        done.set()
        thread.join()

    assert found.toolchain == Unavailable(f"{os.getpid()}")


@pytest.mark.parametrize("finish", ["errand.stop()\nerrand.stop()", "del errand", "errand.finish(); errand.stop()"])
def test_nothing_is_left_behind(finish: str) -> None:
    program = f"""
import time
def find():
    time.sleep({0 if "finish" in finish else 1000})
    return say("")
errand = Errand(find)
{finish}
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no children")
"""
    assert run(program).stdout == "no children\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_both(number: signal.Signals) -> None:
    program = """
import time
signal.signal(signal.SIGTERM, signal.default_int_handler)
errand = Errand(lambda: time.sleep(1000))
print(flush=True)
errand.finish()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUNNER + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.readline()
    [copy] = children_of(process.pid)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=60)

    assert complaint.endswith("KeyboardInterrupt\n")
    assert ends(copy)
