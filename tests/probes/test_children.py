"""Children that never end, say too much, or leave others behind."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from envdoctor.probes.children import Child, Ending
from tests.probes.processes import ends, until


def ask(program: str, *, patience: float = 60) -> Ending:
    return Child(["sh", "-c", program], patience).finish()


@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("printf answer", Ending(answer=b"answer", complaint="", status=0, given_up="")),
        ("echo one >&2; echo two >&2; exit 3", Ending(answer=b"", complaint="two", status=3, given_up="")),
        ("echo said; kill -SEGV $$", Ending(answer=b"said\n", complaint="", status=-11, given_up="")),
        ("printf '\\377' >&2", Ending(answer=b"", complaint="\ufffd", status=0, given_up="")),
        ("cat", Ending(answer=b"", complaint="", status=0, given_up="")),  # there is nothing to read from
    ],
)
def test_an_end_is_told(program: str, ending: Ending) -> None:
    assert ask(program) == ending


def test_a_long_answer_comes_whole() -> None:
    assert len(ask("head -c 5000000 /dev/zero").answer) == 5_000_000


def test_an_answer_stands_whatever_its_program_leaves_running(tmp_path: Path) -> None:
    ending = ask(f"sleep 1000 & echo $! > {tmp_path}/pid; echo said")

    assert ending == Ending(answer=b"said\n", complaint="", status=0, given_up="")
    assert ends((tmp_path / "pid").read_text().strip())


@pytest.mark.parametrize(
    "program",
    ["echo said; sleep 1000", "echo said; exec >&- 2>&-; sleep 1000", "echo said; while :; do sleep 0.1; done"],
)
def test_a_program_that_does_not_end_is_given_up_and_what_it_said_stands(program: str, tmp_path: Path) -> None:
    ending = ask(f"echo $$ > {tmp_path}/pid; {program}", patience=1)

    assert (ending.answer, ending.given_up) == (b"said\n", "given up after 1 seconds")
    assert ends((tmp_path / "pid").read_text().strip())


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_program_that_talks_without_end_is_given_up(stream: str) -> None:
    assert ask(f"yes nonsense {stream}").given_up == "given up after 16 MB of output"


def test_an_end_is_noticed_where_nobody_is_told_of_it() -> None:
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ending = ask("printf answer; exit 3")
    finally:
        signal.signal(signal.SIGCHLD, previous)

    assert (ending.answer, ending.given_up) == (b"answer", "")


def test_what_was_said_in_time_is_heard_after_the_deadline(tmp_path: Path) -> None:
    child = Child(["sh", "-c", f"echo said; touch {tmp_path}/said; sleep 1000"], 0.1)
    assert until((tmp_path / "said").exists)

    assert child.finish().answer == b"said\n"


def test_a_child_that_is_not_waited_for_can_be_stopped(tmp_path: Path) -> None:
    child = Child(["sh", "-c", f"echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid; sleep 1000"], 60)
    assert until((tmp_path / "pid").exists)
    child.stop()
    child.stop()

    assert ends((tmp_path / "pid").read_text().strip())


@pytest.mark.parametrize("attempt", range(30))
def test_an_interruption_while_a_program_starts_leaves_nothing_running(attempt: int, tmp_path: Path) -> None:
    program = f"kill -INT $PPID; echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid; exec sleep 1000"
    with suppress(KeyboardInterrupt):
        Child(["sh", "-c", program], 60 + attempt).finish()

    assert not (tmp_path / "pid").exists() or ends((tmp_path / "pid").read_text().strip())
