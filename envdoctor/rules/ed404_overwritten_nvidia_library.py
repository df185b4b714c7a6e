"""Two wheels of NVIDIA's own wrote the same library file."""

import re

from envdoctor.model.facts import ContestedFolder, Distribution, Environment, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.requirements import find_demands
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._coverage import short_path
from envdoctor.rules._owners import (
    describe_files,
    describe_versions,
    find_installed,
    main_owner,
    replacement_commands,
)
from envdoctor.rules._reinstall import reinstall

_OF_NVIDIA = re.compile(r"/nvidia(/|$)")
_ON_NVIDIA = re.compile(r"nvidia[-_]")
_SHOWN = 4


@rule("ED404", Severity.WARNING, "wheels of NVIDIA overwrote each other's libraries")
def overwritten_nvidia_library(
    contested_folders: tuple[ContestedFolder, ...],
    distributions: tuple[Distribution, ...],
    environment: Environment | None = None,
    torch: TorchBuild | None = None,
) -> Conclusions:
    """
    ## What it means
    Two wheels for different CUDA majors, such as nvidia-nccl-cu11 and nvidia-nccl-cu12, install a library of the same
    name into the same folder, here `nvidia/nccl/lib/libnccl.so.2`. Only the last one is there, and whoever needs the
    other gets the wrong one: `undefined symbol: ncclCommRegister`, a cuDNN of another version than the metadata tell,
    JAX on the CPU without a word.

    ## How envdoctor knows
    The lists of installed files (RECORD) of both name the library, with other content. Size and hash of the file tell
    whose it is. Where one wheel alone lists it, and in another size, another one wrote over it and is not installed any
    more. Wheels of two majors whose libraries have different names (`libcublas.so.11`, `libcublas.so.12`) get along,
    and so do those of CUDA 13, which have a folder of their own (`nvidia/cu13`).

    ## Why it happens
    A lockfile or a requirements file names wheels for two majors, or two frameworks for different majors share an
    environment. Or a folder was copied over another one.

    ## How to fix it
    Remove the wheels of both together, then install the one that torch asks for. To uninstall one of them alone
    (`pip uninstall nvidia-nccl-cu11`, as often advised) deletes the file that they share, and what needs it then finds
    none, or an older one of the system. Take the lines of the other major out of the requirements.

    ## When to ignore it
    When the file that lies there is the one that the job needs, and nothing is installed any more.
    """
    contested = [folder for folder in contested_folders if _OF_NVIDIA.search(folder.folder)]
    if not contested:
        return
    owner_of_torch = next((each for each in distributions if torch and each.metadata_path == torch.distribution), None)
    asked = _find_asked(owner_of_torch, environment) if owner_of_torch else {}
    for folder in sorted(contested, key=lambda each: (each.folder, each.distributions)):
        if len(folder.distributions) == 1:
            yield _tell_replaced(folder, distributions, environment)
            continue
        owner, wanted = main_owner([folder]), next(filter(asked.__contains__, folder.distributions), "")
        whose = f"what lies there is that of {owner}" if owner else "whose files lie there cannot be told"
        but = f", and torch asks for {wanted}" if wanted and wanted != owner else ""
        evidence = list(describe_files([folder]))
        if owner_of_torch and wanted:
            source = owner_of_torch.metadata_path.rpartition("/")[2]
            evidence.append(Evidence(source=source, value=f"Requires-Dist: {asked[wanted]}"))
        yield Finding(
            message=f"{describe_versions(folder.distributions, distributions)} overwrote each other in "
            f"`{short_path(folder.folder)}`: {whose}{but}",
            evidence=tuple(evidence),
            remedy=_remedy(folder, asked.get(wanted, ""), environment),
        )


def _tell_replaced(
    folder: ContestedFolder, distributions: tuple[Distribution, ...], environment: Environment | None
) -> Finding:
    """Tell of a folder that only one installed wheel claims: what wrote over it has left its files there."""
    [name] = folder.distributions
    installed = find_installed(name, distributions)
    version = installed.version if installed and isinstance(installed.version, str) else ""
    files = folder.files[:_SHOWN]
    return Finding(
        message=f"`{short_path(folder.folder)}` holds other libraries than {f'{name} {version}'.strip()} brought, "
        "and no other wheel claims them",
        evidence=tuple(
            Evidence(source=short_path(file.path), value=f"has another size than the RECORD of {name} lists")
            for file in files
        ),
        remedy=Remedy(
            summary=f"install {name} over them again, so that they are what its metadata tell",
            commands=(reinstall(name, version, environment),),
        ),
    )


def _find_asked(owner: Distribution, environment: Environment | None) -> dict[str, str]:
    """Return the wheels of NVIDIA that a distribution asks for, with the requirement."""
    demands = find_demands(owner.requires, _ON_NVIDIA, environment)
    return {demand.project.replace("_", "-").lower(): str(demand) for demand in demands}


def _remedy(folder: ContestedFolder, wanted: str, environment: Environment | None) -> Remedy:
    names = enumerate_all(folder.distributions)
    then = f"install {wanted}, which torch asks for" if wanted else "install the one that is needed"
    return Remedy(
        summary=f"uninstall {names} together, then {then}: to uninstall one alone takes the shared files along",
        commands=replacement_commands(folder.distributions, (wanted,) if wanted else (), environment),
    )
