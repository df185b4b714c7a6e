"""Files of a distribution are gone that its installer recorded."""

from envdoctor.model.facts import Distribution, Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.installation import DamagedInstallation
from envdoctor.model.loading import Loader, LoadFault
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._metadata import find_doubles
from envdoctor.rules._reinstall import reinstall


@rule("ED015", Severity.WARNING, "modules or libraries of a distribution are gone")
def missing_files(
    damaged_installations: tuple[DamagedInstallation, ...],
    distributions: tuple[Distribution, ...] = (),
    environment: Environment | None = None,
    torch: TorchBuild | None = None,
    loader: Loader | None = None,
) -> Conclusions:
    """
    ## What it means
    RECORD lists modules (`.py`) and compiled libraries that are not there. The distribution counts as installed, and
    `pip install` does nothing; importing it fails, or only what needs the missing part:
    `module 'cv2' has no attribute 'imread'`, `No module named ...`.

    ## How envdoctor knows
    It compares the RECORD of each distribution with the folders. Hashes are not looked at: official wheels carry wrong
    ones. Scripts, data, headers, bytecode, tests and empty `__init__.py` may be missing. What conda or a distributor
    packed is passed over: they move files, and leave RECORD as it was.

    ## Why it happens
    Two distributions owned the same files (`opencv-python` and `opencv-python-headless`, `nvidia-*-cu11` and
    `nvidia-*-cu12`) and one of them was uninstalled. Or pip was interrupted, the disk was full, an image was slimmed by
    hand, or a quota or a cleaner of a cluster deleted old files.

    ## How to fix it
    Install the same release over it, with `--force-reinstall`.

    ## When to ignore it
    When the files were removed on purpose and nothing imports them.
    """
    told_elsewhere = {one.metadata_path for group in find_doubles(distributions) for one in group}
    if torch and not torch.has_init:
        told_elsewhere.add(torch.distribution)
    missed = _missed_libraries(loader)
    for one in damaged_installations:
        if one.metadata_path in told_elsewhere or _is_told_by_loader(one, missed):
            continue
        yield Finding(
            message=f"{one.gone_count} of {one.recorded} modules and libraries of `{one.distribution}` {one.version} "
            f"{'is' if one.gone_count == 1 else 'are'} gone",
            evidence=(
                *(Evidence(source=f"RECORD of {one.distribution}", value=f"{path} is gone") for path in one.gone[:5]),
                Evidence(source="in", value=one.location),
            ),
            remedy=Remedy(
                summary="install the same release over it; without `--force-reinstall` pip takes it for installed",
                commands=(reinstall(one.distribution, one.version, environment),),
            ),
        )


def _missed_libraries(loader: Loader | None) -> frozenset[str]:
    """Name the libraries that the loader will not find: its rules say so, and for whom."""
    if loader is None:
        return frozenset()
    failures = [one.failure for one in loader.failed] + ([loader.torch] if loader.torch else [])
    return frozenset(failure.name for failure in failures if failure.fault is LoadFault.LIBRARY)


def _is_told_by_loader(damage: DamagedInstallation, missed: frozenset[str]) -> bool:
    return damage.gone_count == len(damage.gone) and all(path.rpartition("/")[2] in missed for path in damage.gone)
