import pytest

from envdoctor.rules.ed214_locked_cached_extension import locked_cached_extension
from tests.builders import a_jit_extension

HOUR = 3600.0


@pytest.mark.parametrize(("age", "hours"), [(2 * HOUR, "2"), (72 * HOUR, "72")])
def test_fires_when_a_lock_is_hours_old(age: float, hours: str) -> None:
    # https://github.com/AnswerDotAI/RAGatouille/issues/245
    extension = a_jit_extension(name="packbits_cpp", folder="/cache/py310 cu121/packbits_cpp", lock_age_seconds=age)
    [finding] = locked_cached_extension(jit_extensions=(extension,))

    assert finding.message == (f"a lock file that is {hours} hours old stops every process that loads `packbits_cpp`")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("rm '/cache/py310 cu121/packbits_cpp/lock'",)


@pytest.mark.parametrize("age", [None, 0.0, 600.0])
def test_is_silent_without_lock_or_while_a_build_may_run(age: float | None) -> None:
    assert locked_cached_extension(jit_extensions=(a_jit_extension(lock_age_seconds=age),)) == []
