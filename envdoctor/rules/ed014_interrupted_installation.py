"""Folders that pip set aside while it removed or replaced something, and did not delete."""

import shlex
from collections import defaultdict

from envdoctor.model.facts import Distribution, MetadataKind
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule

_MOST_NAMED = 10


@rule("ED014", Severity.INFO, "an interrupted pip left folders that begin with `~`")
def interrupted_installation(distributions: tuple[Distribution, ...]) -> Conclusions:
    """
    ## What it means
    While pip replaces a distribution it sets the old files aside, in folders whose names begin with `~`: `~orch` for
    torch. When it is interrupted they stay. Nothing imports them; pip warns about them at every call
    (`Ignoring invalid distribution -orch`), and those of torch take gigabytes.

    ## How envdoctor knows
    It lists the folders of the search path.

    ## Why it happens
    pip was killed, or the disk was full, or a process that used the files kept them from being deleted.

    ## How to fix it
    Delete them. When the distribution itself is missing or behaves strangely, install it again.

    ## When to ignore it
    While an installation is running.
    """
    leftovers = defaultdict(list)
    for one in sorted(distributions, key=lambda one: one.name):
        if one.metadata_kind is MetadataKind.LEFTOVER:
            leftovers[one.location].append(one)
    installed = {one.name[1:]: one.name for one in distributions if one.metadata_kind is not MetadataKind.LEFTOVER}
    for location, here in leftovers.items():
        yield Finding(
            message=f"an interrupted pip left {len(here)} folder{'s' * (len(here) > 1)} in `{location}`",
            evidence=tuple(
                Evidence(source=one.name, value=_describe(one.name, installed)) for one in here[:_MOST_NAMED]
            ),
            remedy=Remedy(
                summary="delete what is left",
                commands=tuple(f"rm -r {shlex.quote(one.metadata_path)}" for one in here),
            ),
        )


def _describe(leftover: str, installed: dict[str, str]) -> str:
    project = leftover.removeprefix("~").partition("-")[0].replace("_", "-").lower()
    if name := installed.get(project):
        return f"set aside while `{name}` was being replaced, which is installed"
    return "set aside while it was being removed or replaced; nothing of that name is installed"
