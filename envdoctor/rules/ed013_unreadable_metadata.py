"""Metadata that tell no version, or another one than the folder they lie in."""

import shlex

from packaging.version import Version

from envdoctor.model.facts import Distribution, Environment, MetadataKind
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._metadata import find_doubles, folder_of, is_unreadable, version_of_folder
from envdoctor.rules._reinstall import reinstall


@rule("ED013", Severity.WARNING, "the metadata of a distribution are empty, missing or contradict themselves")
def unreadable_metadata(distributions: tuple[Distribution, ...], environment: Environment | None = None) -> Conclusions:
    """
    ## What it means
    A `*.dist-info` or `*.egg-info` has no METADATA (PKG-INFO), an empty one, or one that tells another version than the
    name of its folder. `importlib.metadata.version` gives None or fails, and so does code that asks for it at import:
    `TypeError: expected string or bytes-like object`. pip passes it over, or cannot uninstall it.

    ## How envdoctor knows
    It reads the headers of the metadata in every folder of the search path.

    ## Why it happens
    An uninstallation removed the files and left the folder; the disk was full; a package manager owned the files but
    not their folder; somebody renamed the folder to satisfy a version check.

    ## How to fix it
    Install the distribution again; or delete the folder, when nothing else of it is left.

    ## When to ignore it
    When nothing asks for the version of the distribution.
    """
    told_elsewhere = {one.metadata_path for group in find_doubles(distributions) for one in group}
    for one in distributions:
        if one.metadata_path in told_elsewhere:
            continue
        if oddity := _find_oddity(one):
            yield Finding(
                message=f"the metadata of `{one.name}` in `{one.location}` {oddity}",
                evidence=(Evidence(source=folder_of(one), value="; ".join(one.problems) or f"Version: {one.version}"),),
                remedy=Remedy(
                    summary="delete the folder, which pip cannot, and install it again if anything of it is wanted",
                    commands=_delete_and_install(one, environment),
                ),
            )


def _find_oddity(distribution: Distribution) -> str:
    if is_unreadable(distribution):
        return "tell no version"
    named = version_of_folder(distribution)
    if _is_wheel(distribution) and isinstance(distribution.version, str) and _differ(named, distribution.version):
        return f"tell version {distribution.version} in a folder of {named}"
    return ""


def _delete_and_install(distribution: Distribution, environment: Environment | None) -> tuple[str, ...]:
    delete = f"rm -r {shlex.quote(distribution.metadata_path)}"
    if environment and environment.kind == "system" and distribution.installer != "pip":
        return (delete,)  # what the system's own package manager brought is not for pip to replace
    version = version_of_folder(distribution) if _is_wheel(distribution) else ""
    return (delete, reinstall(distribution.name, version, environment))


def _is_wheel(distribution: Distribution) -> bool:
    return distribution.metadata_kind is MetadataKind.DIST_INFO


def _differ(named: str, told: str) -> bool:
    try:
        return Version(named.replace("_", "-")) != Version(told)  # names of wheels are escaped
    except ValueError:  # InvalidVersion is one; and there are numbers that are too long for Python
        return False
