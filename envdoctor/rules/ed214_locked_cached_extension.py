"""A lock file was left in torch's build cache: whoever loads the extension waits for ever."""

import shlex

from envdoctor.model.facts import JitExtension
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule

# The longest builds of extensions take some ten minutes per core; an hour leaves no doubt.
_OLD = 3600.0


@rule("ED214", Severity.WARNING, "a lock file was left in torch's build cache")
def locked_cached_extension(jit_extensions: tuple[JitExtension, ...]) -> Conclusions:
    """
    ## What it means
    A process that compiles an extension for torch holds a file `lock` in its folder, and every other process that
    wants the extension waits until it is gone. This one is hours old. The job hangs at `Loading extension module ...`
    or without a word.

    ## How envdoctor knows
    It looks at the age of the files named `lock` in the cache that this torch uses with this Python. From torch 2.14 on
    they stay, and lock nobody out: there it does not look.

    ## Why it happens
    The process that compiled was killed: a job reached its time limit, the container was stopped, memory ran out.

    ## How to fix it
    Delete the lock, after making sure that nothing is compiling.

    ## When to ignore it
    When a build really takes that long.
    """
    for one in jit_extensions:
        if one.lock_age_seconds is None or one.lock_age_seconds < _OLD:
            continue
        lock, hours = f"{one.folder}/lock", one.lock_age_seconds / 3600
        yield Finding(
            message=f"a lock file that is {hours:.0f} hours old stops every process that loads `{one.name}`",
            evidence=(Evidence(source=lock, value=f"{hours:.1f} hours old"),),
            remedy=Remedy(summary="delete it if nothing is compiling", commands=(f"rm {shlex.quote(lock)}",)),
        )
