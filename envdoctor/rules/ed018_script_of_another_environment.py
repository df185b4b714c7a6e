"""A command of the environment starts another interpreter."""

import shlex
from pathlib import PurePosixPath

from envdoctor.model.facts import Environment
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.installation import Launcher
from envdoctor.model.rule import Conclusions, rule

_MODULES = {
    "accelerate": "accelerate.commands.accelerate_cli",
    "deepspeed": "deepspeed.launcher.runner",
    "ipython": "IPython",
    "pip3": "pip",
    "torchrun": "torch.distributed.run",
}


@rule("ED018", Severity.WARNING, "a command such as `torchrun` or `pip` starts another Python than this environment's")
def script_of_another_environment(environment: Environment, launchers: tuple[Launcher, ...]) -> Conclusions:
    """
    ## What it means
    The first line of a script names its interpreter by its full path. That of `torchrun`, `pip` or another command is
    not the one of this environment: the job runs with other packages (`ModuleNotFoundError` for what is installed
    here), pip installs elsewhere, or nothing starts at all (`bad interpreter: No such file or directory`,
    `cannot execute: required file not found`).

    ## How envdoctor knows
    It reads the first line of these scripts in the `bin` of the environment; while the environment is active and has no
    `torchrun`, `accelerate` or `deepspeed`, of the one that PATH leads to.

    ## Why it happens
    The environment was moved, renamed or copied, as from one stage of a Docker build into another: `bin/python` works
    at the new place, and the scripts still name the old one. Or torch is not of the environment but of a module of the
    cluster or of the user site, and its `torchrun` starts the Python that it was installed with.

    ## How to fix it
    Start the module instead of the script: `python -m torch.distributed.run`, `python -m pip`. Make a moved
    environment anew; `pip install --force-reinstall` writes the scripts of single distributions again.

    ## When to ignore it
    When the commands are not used.
    """
    for interpreter in dict.fromkeys(launcher.interpreter for launcher in launchers):
        here = sorted((one for one in launchers if one.interpreter == interpreter), key=lambda one: one.script)
        names = [PurePosixPath(launcher.script).name for launcher in here]
        gone = "" if here[0].exists else ", which does not exist"
        yield Finding(
            message=f"{', '.join(f'`{name}`' for name in names)} start{'s' * (len(here) == 1)} `{interpreter}`{gone}",
            evidence=(
                *(Evidence(source=launcher.script, value=f"#!{interpreter}") for launcher in here),
                Evidence(source="this environment", value=environment.prefix),
            ),
            remedy=Remedy(
                summary="start the module instead of the script, or make the environment anew at its place",
                commands=_start_modules(environment, names),
            ),
        )


def _start_modules(environment: Environment, names: list[str]) -> tuple[str, ...]:
    python = shlex.quote(environment.interpreter) if isinstance(environment.interpreter, str) else "python"
    return tuple(dict.fromkeys(f"{python} -m {_MODULES.get(name, name)}" for name in names))
