"""PYTHONPATH puts files in the place of modules of the standard library or of the environment."""

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Finding, NotApplicable, Remedy, Severity
from envdoctor.model.installation import ShadowedModule
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._namesakes import is_poorer, list_evidence, name_all, without_overrides
from envdoctor.rules._overrides import PYTHONPATH, folders_of, shorten_pythonpath


@rule("ED009", Severity.WARNING, "a module on PYTHONPATH is imported instead of what it lacks a part of")
def module_hidden_by_pythonpath(
    environment: Environment,
    shadowed_modules: tuple[ShadowedModule, ...],
    distributions: tuple[Distribution, ...] = (),
) -> Conclusions:
    """
    ## What it means
    A folder of `PYTHONPATH` holds a module of the same name as one of the standard library, or a package without the
    compiled part that the installed one has. Python imports the one on `PYTHONPATH`. Code that expects the other fails:
    `AttributeError`, `cannot import name`, `No module named 'mmcv._ext'`.

    ## How envdoctor knows
    It compares the names in the folders of `PYTHONPATH` with those further down the search path, and the extension
    modules (`.so`) of packages of one name. Folders without `__init__.py` hide nothing. Where a whole distribution
    stands before another version of itself, ED004 says so; a namesake that lacks nothing is ED011.

    ## Why it happens
    `PYTHONPATH` names a folder inside a package, a checkout of a project that is installed as well, or the folder of
    other software: that of ROS brings its own `cv2`.

    ## How to fix it
    Take the folder off `PYTHONPATH`, or rename the module. To reinstall the hidden package changes nothing.

    ## When to ignore it
    When the folder was put there to replace just this module.
    """
    if not folders_of(environment, PYTHONPATH):
        yield NotApplicable("PYTHONPATH names no folder")
        return
    suspected = (
        module
        for module in shadowed_modules
        if module.origin == PYTHONPATH and is_poorer(module) and not module.lacking
    )
    modules = without_overrides(suspected, distributions)
    for folder in dict.fromkeys(module.taken.rpartition("/")[0] for module in modules):
        here = tuple(module for module in modules if module.taken.rpartition("/")[0] == folder)
        yield Finding(
            message=f"`{folder}` on PYTHONPATH hides {name_all(here)}",
            evidence=tuple(list_evidence(here)),
            remedy=Remedy(
                summary="take the folder off PYTHONPATH, or rename what hides; to reinstall what is hidden changes "
                "nothing",
                commands=(shorten_pythonpath(environment, (folder,)),),
            ),
        )
