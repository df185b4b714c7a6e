"""PYTHONPATH puts a file in the place of a module that the standard library itself needs."""

from envdoctor.model.facts import Environment
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import PYTHONPATH, folders_of, shorten_pythonpath


@rule("ED008", Severity.ERROR, "a file on PYTHONPATH stands in for a module of the standard library, and breaks it")
def replaced_standard_library(environment: Environment, shadowed_modules: tuple[ShadowedModule, ...]) -> Conclusions:
    """
    ## What it means
    A folder of `PYTHONPATH` holds a `random.py`, a `types.py` or the like, which Python imports instead of its own
    module of that name. Other modules of the standard library import from it what it does not have, and fail:
    `cannot import name 'Random' from 'random'`, `cannot import name 'GenericAlias' from partially initialized module
    'types'`. `import torch` does not get far.

    ## How envdoctor knows
    The file comes before the standard library on the search path, and a name that the standard library imports from the
    module (`from random import Random` in `tempfile.py`) does not occur in it.

    ## Why it happens
    A folder that is a package, or lies in one, was put on `PYTHONPATH`, instead of the folder that holds the package.
    `site-packages/torch` has a `random.py` and a `types.py`.

    ## How to fix it
    Take the folder off `PYTHONPATH`. Where envdoctor itself does not start for the same reason,
    `python -I -m envdoctor check` does.

    ## When to ignore it
    Never.
    """
    if not folders_of(environment, PYTHONPATH):
        yield NotApplicable("PYTHONPATH names no folder")
        return
    for module in shadowed_modules:
        if module.origin != PYTHONPATH or not module.lacking:
            continue
        folder = module.taken.rpartition("/")[0]
        yield Finding(
            message=f"`import {module.name}` finds `{module.taken}`, which has no `{module.lacking}`",
            evidence=(
                Evidence(source="PYTHONPATH", value=f"{folder} comes before {module.hidden}"),
                Evidence(
                    source=f"{module.asked_by} of the standard library",
                    value=f"from {module.name} import {module.lacking}",
                ),
            ),
            remedy=Remedy(
                summary="take the folder off PYTHONPATH; the one that holds the package may be meant",
                commands=(shorten_pythonpath(environment, (folder,)),),
            ),
        )
