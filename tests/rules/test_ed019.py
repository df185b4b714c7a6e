"""ED019: the interpreter does not start."""

from envdoctor.model.facts import Absence, PathSource, Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed019_interpreter_that_does_not_start import interpreter_that_does_not_start
from tests.builders import an_environment

NOTE = "`/opt/env/bin/python` does not start: No such file or directory; ..."


def test_fires_with_what_happened() -> None:
    [finding] = interpreter_that_does_not_start(environment=an_environment(path_source=PathSource.FILES, notes=(NOTE,)))

    assert finding.message == "`/opt/env/bin/python` does not start here"
    assert finding.evidence[0].value == NOTE
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_pythonhome_is_unset_first() -> None:
    notes = (NOTE, "PYTHONHOME is set: every Python takes its standard library from `/opt/ida`")
    [finding] = interpreter_that_does_not_start(environment=an_environment(path_source=PathSource.FILES, notes=notes))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset PYTHONHOME",)


def test_is_silent_about_one_that_answered() -> None:
    assert not interpreter_that_does_not_start(environment=an_environment())


def test_is_not_asked_where_there_is_none() -> None:
    nowhere = Unavailable("`/opt/env` holds no bin/python", Absence.NOT_APPLICABLE)
    [conclusion] = interpreter_that_does_not_start.check(
        environment=an_environment(interpreter=nowhere, path_source=PathSource.FILES)
    )

    assert isinstance(conclusion, NotApplicable)
