"""Whether torch and what lies beside it were made for each other."""

import re

from packaging.version import Version

from envdoctor.model.facts import Companion, CudaCheck, TorchBuild, TorchFlavour
from envdoctor.model.requirements import Demand


def is_of_release(version: str, release: str) -> bool:
    """Tell whether a version is of a release that may be named in part: 2.4.1+cu121 is of 2.4."""
    asked = _numbers(release)
    return _numbers(version)[: len(asked)] == asked


def meets(torch: TorchBuild, demand: Demand) -> bool:
    """Tell whether a torch is what is demanded, or a build of that release by other hands.

    NVIDIA's containers have 2.1.0a0+32f93b1, conda-forge has 2.3.1.post100. What is no version meets everything.
    """
    try:
        return demand.is_met(torch.version) or demand.is_met(Version(torch.version).base_version)
    except ValueError:
        return True


def refuses(companion: Companion, torch: TorchBuild) -> bool:
    """Tell whether the code of a companion ends its import because of the CUDA version of torch."""
    versions = (companion.cuda, str(torch.build_cuda_version))
    if TorchFlavour.CUDA not in {companion.flavour} & {torch.flavour} or "." not in companion.cuda:
        return False
    if companion.cuda_check is CudaCheck.MAJOR:
        return has_other_major(*versions)
    return companion.cuda_check is CudaCheck.MINOR and versions[0] != versions[1]


def has_other_major(first: str, second: str) -> bool:
    """Tell whether two CUDA versions are of different major versions."""
    return first.partition(".")[0] != second.partition(".")[0]


def _numbers(version: str) -> list[str]:
    return re.findall(r"\d+", re.split(r"[^\d.]", version)[0])
