"""torch has no compiled part that the examined interpreter would import."""

from envdoctor.model.facts import Environment, PathSource, TorchBuild
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import find_pythonpath_folder, take_off_pythonpath
from envdoctor.rules._reinstall import reinstall


@rule("ED021", Severity.ERROR, "torch has no extension module for this Python")
def torch_without_extension(torch: TorchBuild, environment: Environment | None = None) -> Conclusions:
    """
    ## What it means
    `import torch` first of all imports its compiled module `torch._C`. The one that is there was built for another
    version of Python, or there is none: `ModuleNotFoundError: No module named 'torch._C'`, or
    `ImportError: Failed to load PyTorch C extensions`.

    ## How envdoctor knows
    The interpreter finds an extension module by the end of its name, as in `_C.cpython-310-x86_64-linux-gnu.so`. None
    of the files in the folder `torch` has one of the endings that the examined interpreter looks for.

    ## Why it happens
    A wheel for another Python was renamed or unpacked by hand, an environment was copied to another Python, or
    `PYTHONPATH` leads to the packages of another one. Or a build from source ended before its last step.

    ## How to fix it
    Install torch with the pip of this interpreter, which takes the wheel that is made for it; the oldest release for a
    Python may be newer than this one. To rename the file does not help: its code is compiled for the other version. A
    torch on `PYTHONPATH` has to leave it: what pip installs comes behind.

    ## When to ignore it
    Never, if the job imports torch.
    """
    if not torch.has_init:
        yield NotApplicable("there is no whole torch")
        return
    if not torch.missing_extension:
        return
    if environment and environment.path_source is PathSource.FILES:
        # Its endings are guessed for this machine, and the environment may be of another one.
        yield Undecided(f"`torch._C`: {torch.missing_extension}, and the interpreter could not be asked what it takes")
        return
    version = environment.python_version if environment else None
    python = f"Python {version[0]}.{version[1]}" if isinstance(version, tuple) and version[1:] else "this Python"
    endings = ", ".join(environment.extension_suffixes) if environment else ""
    yield Finding(
        message=f"torch {torch.version} in `{torch.root}` has no extension module `torch._C` for {python}",
        evidence=(
            Evidence(source=torch.root, value=torch.missing_extension),
            *((Evidence(source=f"{python} looks for", value=endings),) if endings else ()),
        ),
        remedy=_find_remedy(torch, environment),
    )


def _find_remedy(torch: TorchBuild, environment: Environment | None) -> Remedy:
    folder = find_pythonpath_folder(torch.root, environment)
    if folder and environment:
        return take_off_pythonpath(folder, environment)
    return Remedy(
        summary="install torch with the pip of this interpreter; to rename the file does not help",
        commands=(reinstall("torch", torch.version, environment),),
    )
