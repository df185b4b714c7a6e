"""Two metadata folders of one distribution in one place: each reader finds the version that comes first to it."""

import shlex

from packaging.version import Version

from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.installation import DamagedInstallation
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._metadata import find_doubles, folder_of, is_unreadable
from envdoctor.rules._overrides import written_version
from envdoctor.rules._reinstall import reinstall


@rule("ED012", Severity.WARNING, "a distribution has metadata of several versions in one folder")
def doubled_metadata(
    distributions: tuple[Distribution, ...],
    damaged_installations: tuple[DamagedInstallation, ...] = (),
    environment: Environment | None = None,
) -> Conclusions:
    """
    ## What it means
    Two metadata folders of one distribution lie side by side. The files belong to one of them at most. Which one
    `pip list` and `importlib.metadata.version` read depends on the order in which the file system lists them: they may
    tell the wrong version, or None where the metadata are empty, and code that compares versions fails with
    `TypeError: expected string or bytes-like object` or takes the wrong way.

    ## How envdoctor knows
    It reads every `*.dist-info` and `*.egg-info` in the folders of the search path, and looks whether the modules and
    libraries that each lists in RECORD are there. Hashes are not looked at. Two folders that tell one version, as conda
    leaves them, are no finding.

    ## Why it happens
    pip was interrupted while it replaced the distribution; conda and pip installed it one after the other; a folder was
    copied over another.

    ## How to fix it
    Delete the metadata whose files are gone. Where that cannot be told, uninstall until nothing is left, and install
    again.

    ## When to ignore it
    When nothing asks for the version of the distribution.
    """
    damage = {one.metadata_path: one for one in damaged_installations}
    for group in find_doubles(distributions):
        name = group[0].name
        yield Finding(
            message=f"`{name}` has metadata of {len(group)} versions in `{group[0].location}`",
            evidence=tuple(
                Evidence(source=folder_of(one), value=_describe(one, damage.get(one.metadata_path))) for one in group
            ),
            remedy=_find_remedy(group, damage, environment),
        )


def _describe(distribution: Distribution, damage: DamagedInstallation | None) -> str:
    if is_unreadable(distribution):
        return "; ".join(distribution.problems[:1]) or "it tells no version"
    version = f"version {written_version(distribution)}"
    if damage is None:
        return version
    return f"{version}; {damage.gone_count} of its {damage.recorded} modules and libraries are gone"


def _find_remedy(
    group: tuple[Distribution, ...], damage: dict[str, DamagedInstallation], environment: Environment | None
) -> Remedy:
    name = group[0].name
    whole = [one for one in group if not is_unreadable(one) and one.metadata_path not in damage]
    if len(whole) == 1:
        stale = (one for one in group if one is not whole[0])
        return Remedy(
            summary=f"delete the metadata that are left over: the files are those of {written_version(whole[0])}",
            commands=tuple(f"rm -r {shlex.quote(one.metadata_path)}" for one in stale),
        )
    newest = max((one.version for one in group if isinstance(one.version, str)), key=Version, default="")
    return Remedy(
        summary="delete all of these metadata, and install the version that is wanted: `pip uninstall` takes the files "
        "of one alone",
        commands=(
            *(f"rm -r {shlex.quote(one.metadata_path)}" for one in group),
            reinstall(name, newest, environment),
        ),
    )
