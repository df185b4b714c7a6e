"""An environment is active, and `python` starts another one."""

import shlex

from envdoctor.model.facts import Environment
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule

_ACTIVE = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX"})


@rule("ED022", Severity.WARNING, "`python` is not that of the active environment")
def another_python_on_path(environment: Environment) -> Conclusions:
    """
    ## What it means
    `VIRTUAL_ENV` or `CONDA_PREFIX` names this environment, which is what this report is about. But `python` starts
    another interpreter, with other packages: `python train.py` ends with `ModuleNotFoundError`, or runs another torch.

    ## How envdoctor knows
    It looks `python` up on PATH. Scripts, as the shims of pyenv are, are passed over: they may start the right one.

    ## Why it happens
    Another folder was put before the environment's on PATH after it was activated: by `module load`, by a line of a
    script or of `~/.bashrc`, by an action of a CI. Or the variable was inherited without PATH: by `sudo`, in a
    container, in a batch job, in a terminal of an editor.

    ## How to fix it
    Activate the environment last, or start its interpreter by its full path.

    ## When to ignore it
    When the job names its interpreter itself.
    """
    if environment.chosen_because not in _ACTIVE:
        yield NotApplicable("no environment is active, or another one was named")
        return
    if not environment.other_python:
        return
    prefix = shlex.quote(environment.prefix)
    activate = f"conda activate {prefix}" if environment.kind == "conda" else f"source {prefix}/bin/activate"
    yield Finding(
        message=f"`python` starts `{environment.other_python}`, and not the active environment",
        evidence=(
            Evidence(source="PATH", value=f"python: {environment.other_python}"),
            Evidence(source=environment.chosen_because, value=environment.prefix),
        ),
        remedy=Remedy(
            summary="activate the environment after everything that changes PATH, or start its interpreter by its path",
            commands=(activate,),
        ),
    )
