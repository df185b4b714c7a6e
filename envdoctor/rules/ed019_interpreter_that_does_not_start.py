"""The interpreter of the environment is there, and does not run."""

from envdoctor.model.facts import Environment, PathSource
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule


@rule("ED019", Severity.WARNING, "the Python of this environment does not start here")
def interpreter_that_does_not_start(environment: Environment) -> Conclusions:
    """
    ## What it means
    envdoctor started the interpreter of the environment to ask for its search path, and got no answer. A job that is
    started with it here will not run either. What this report says was derived from the files of the environment.

    ## How envdoctor knows
    It starts `bin/python` with a small script that imports nothing of the environment, and waits ten seconds.

    ## Why it happens
    The Python that a venv was made from was removed or upgraded (`home` in `pyvenv.cfg` leads nowhere, `bin/python` is
    a dangling link); the environment was made on another machine or in a container; it is for another processor; or
    `PYTHONHOME` is set, as some software does that brings its own Python.

    ## How to fix it
    Make the environment anew with a Python of this machine. If `PYTHONHOME` is set, unset it.

    ## When to ignore it
    When the environment is only looked at here, and the job runs elsewhere.
    """
    if not isinstance(environment.interpreter, str):
        yield NotApplicable(environment.interpreter.reason)
        return
    if environment.path_source is not PathSource.FILES:
        return
    has_home = any(note.startswith("PYTHONHOME is set") for note in environment.notes)
    yield Finding(
        message=f"`{environment.interpreter}` does not start here",
        evidence=tuple(Evidence(source="asking it", value=note) for note in environment.notes[:3])
        or (Evidence(source="asking it", value="no answer"),),
        remedy=Remedy(
            summary="unset PYTHONHOME, which moves the standard library of every Python"
            if has_home
            else "make the environment anew with a Python of this machine",
            commands=("unset PYTHONHOME",) if has_home else (),
        ),
    )
