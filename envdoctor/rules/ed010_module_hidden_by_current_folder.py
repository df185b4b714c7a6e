"""A job that is started in the current folder imports a file of it instead of what the environment has."""

from envdoctor.model.finding import Finding, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._namesakes import is_poorer, list_evidence, name_all


@rule("ED010", Severity.WARNING, "a module in the current folder is imported instead of what it lacks a part of")
def module_hidden_by_current_folder(shadowed_modules: tuple[ShadowedModule, ...]) -> Conclusions:
    """
    ## What it means
    The current folder holds a module of the same name as one of the standard library, or a package without the compiled
    part that the installed one has. Python looks into the folder of the script, or with `-m` and `-c` into the current
    one, before anything else. A job that starts here ends with `No module named 'torch._C'`,
    `No module named 'mmcv._ext'` or `cannot import name ...`.

    ## How envdoctor knows
    It compares the names in the folder that it was started in with those on the search path, and the extension modules
    (`.so`) of packages of one name.

    ## Why it happens
    The job is started in a checkout of the project that is also installed: PyTorch's own sources, mmcv, apex. Or a
    script was called `random.py`, or lies inside a package such as `torch/utils`.

    ## How to fix it
    Start the job in another folder, or rename the file. `PYTHONSAFEPATH=1` keeps Python 3.11 and later from looking
    there. To reinstall the hidden package changes nothing.

    ## When to ignore it
    When the job is not started here and its script lies elsewhere.
    """
    modules = tuple(module for module in shadowed_modules if module.origin == "current folder" and is_poorer(module))
    if modules:
        yield Finding(
            message=f"the current folder hides {name_all(modules)} from a job that is started in it",
            evidence=tuple(list_evidence(modules)),
            remedy=Remedy(
                summary="start the job in another folder, or rename what hides; to reinstall what is hidden changes "
                "nothing",
            ),
        )
