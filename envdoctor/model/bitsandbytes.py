"""Which of its libraries bitsandbytes loads: it brings one for each of several CUDA versions.

Source: bitsandbytes/cextension.py, and bitsandbytes/cuda_setup/main.py before 0.43.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from envdoctor.model.facts import TorchBuild, Unavailable, Variable
from envdoctor.model.visibility import value_of

DISTRIBUTION = "bitsandbytes"
VARIABLE = "BNB_CUDA_VERSION"

# libbitsandbytes_cuda118.so, and libbitsandbytes_cuda118_nocublaslt.so for GPUs before 7.5.
_LIBRARY = re.compile(r"libbitsandbytes_cuda(\d+)(?:_nocublaslt)?\.so$")
_FIRST_BY_TORCH = Version("0.41")  # before: by the libcudart that it finds
_FIRST_TO_GO_ON = Version("0.43")  # before: `RuntimeError: CUDA Setup failed despite GPU being available`
_FIRST_WITH_SUBSTITUTES = Version("0.50")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What bitsandbytes looks for, and what it takes; CUDA versions as its libraries name them: ``118``."""

    wanted: str
    by_variable: bool
    available: tuple[str, ...]
    loaded: str | None

    def loads(self, library: str) -> bool:
        """Tell whether a library, by its path, is the one that it takes."""
        return self.loaded is not None and _number_of(library) == self.loaded


def choose(
    libraries: Iterable[str],
    torch: TorchBuild | None,
    version: str | Unavailable | None,
    variables: tuple[Variable, ...],
) -> Choice | None:
    """Tell what a version of bitsandbytes loads beside *torch*; None where that has no CUDA, or nobody can tell.

    Of *libraries*, which are paths, only its own count.
    """
    cuda = torch.build_cuda_version if torch else None
    release = _release_of(version)
    if cuda is None or release is None or release < _FIRST_BY_TORCH:
        return None
    available = tuple(sorted({number for library in libraries if (number := _number_of(library))}))
    named = value_of(variables, VARIABLE)
    wanted = named or f"{cuda.major}{cuda.minor}"
    substitutes = () if named or release < _FIRST_WITH_SUBSTITUTES else available
    loaded = wanted if wanted in available else nearest(wanted, substitutes)
    return Choice(wanted=wanted, by_variable=bool(named), available=available, loaded=loaded)


def ends_import(version: str | Unavailable) -> bool:
    """Tell whether `import bitsandbytes` fails beside a GPU, where a version cannot load its library for CUDA."""
    release = _release_of(version)
    return release is not None and release < _FIRST_TO_GO_ON


def nearest(wanted: str, available: Iterable[str]) -> str | None:
    """Return the newest library for an older CUDA of the same major version, else the oldest for a newer one."""
    of_major = [number for number in available if number[:-1] == wanted[:-1]]
    older = [number for number in of_major if number < wanted]
    return max(older, default=None) or min(of_major, default=None)


def dotted(number: str) -> str:
    """Write ``118`` as CUDA versions are written; what is no number stays."""
    return f"{number[:-1]}.{number[-1]}" if re.fullmatch(r"\d{2,3}", number) else number


def _number_of(library: str) -> str | None:
    match = _LIBRARY.search(library)
    return match[1] if match else None


def _release_of(version: str | Unavailable | None) -> Version | None:
    try:
        return Version(version) if isinstance(version, str) else None
    except ValueError:  # also of numbers that are too long for Python
        return None
