"""Two distributions wrote over each other's code in one package."""

import re

from envdoctor.model.facts import ContestedFolder, Distribution, Environment
from envdoctor.model.finding import Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._owners import (
    describe_files,
    describe_versions,
    find_installed,
    fullest,
    main_owner,
    replacement_commands,
)

_OF_NVIDIA = re.compile(r"/nvidia(/|$)")


@rule("ED405", Severity.WARNING, "several distributions overwrote each other's code")
def overwritten_package(
    contested_folders: tuple[ContestedFolder, ...],
    distributions: tuple[Distribution, ...],
    environment: Environment | None = None,
) -> Conclusions:
    """
    ## What it means
    Variants of one package are installed together: onnxruntime and onnxruntime-gpu, two of the four opencv-python,
    mmcv and mmcv-full, two cupy, faiss-cpu and faiss-gpu. They share one folder, and each wrote over the other's files.
    What is imported is a mixture: onnxruntime has no `CUDAExecutionProvider` and runs on the CPU, `cv2.imshow` says
    `The function is not implemented`, `mmcv._ext` is missing, CuPy warns that it may not function correctly.

    ## How envdoctor knows
    The lists of installed files (RECORD) of both name the same files of code, with other content. Size and hash of the
    files tell whose lie there. Files that both brought alike, marks of namespaces, and tests or documents beside the
    packages do not count.

    ## Why it happens
    pip does not know that two names stand for one package, and installs both: one was asked for, the other is required
    by something else.

    ## How to fix it
    Remove all of them together, then install one. To uninstall one alone deletes the files that they share, and leaves
    a package without them (`module 'onnxruntime' has no attribute 'InferenceSession'`).

    ## When to ignore it
    When the variant that was installed last is the one that the job needs, and both are of one version.
    """
    groups: dict[tuple[str, ...], list[ContestedFolder]] = {}
    for folder in sorted(contested_folders, key=lambda each: each.folder):
        if not _OF_NVIDIA.search(folder.folder):
            groups.setdefault(folder.distributions, []).append(folder)
    for names, folders in sorted(groups.items()):
        packages = enumerate_all(f"`{folder.folder.rpartition('/')[2]}`" for folder in folders)
        contested, owner = sum(folder.contested for folder in folders), main_owner(folders)
        whose = f"most of what lies there is that of {owner}" if owner else "whose files lie there cannot be told"
        yield Finding(
            message=f"{describe_versions(names, distributions)} overwrote each other in {packages}: {contested} "
            f"file{'s' if contested > 1 else ''} of code; {whose}",
            evidence=tuple(describe_files(folders)),
            remedy=_remedy(names, owner, distributions, environment),
        )


def _remedy(
    names: tuple[str, ...], owner: str, distributions: tuple[Distribution, ...], environment: Environment | None
) -> Remedy:
    keep = fullest(names) or owner or names[0]
    installed = find_installed(keep, distributions)
    version = f"=={installed.version}" if installed and isinstance(installed.version, str) else ""
    return Remedy(
        summary=f"uninstall {enumerate_all(names)} together, then install one of them alone, for instance {keep}: to "
        "uninstall one only takes the shared files along",
        commands=replacement_commands(names, (keep + version,), environment),
    )
