"""CuPy, and where the compiler lies that it loads by name: it brings none of its own."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import Version

from envdoctor.model.facts import Absence, CupyBuild, Distribution, Environment, MetadataKind, Unavailable, Variable
from envdoctor.probes.driver_libraries import find_library
from envdoctor.probes.foreign_files import read_text
from envdoctor.probes.import_path import find_import_packages
from envdoctor.probes.nvrtc import find_builtins

_PREFIX = "cupy-cuda"
_WHEEL = re.compile(rf"{_PREFIX}\d{{1,2}}[\dx]")
_LONGEST_NOTE = 1 << 16
# The libnvrtc of CUDA 11.2 and later keeps its name up to 11.8 (CUDA C++ "NVRTC", Versioning Scheme).
_LAST_OF_11 = 2
# Since 14, cuda-pathfinder looks for CuPy in the folders of NVIDIA's wheels and of CUDA_HOME.
_FIRST_WITH_PATHFINDER = Version("14.0.0a1")


def read_cupy_build(
    environment: Environment,
    distributions: tuple[Distribution, ...] | Unavailable,
    variables: Iterable[Variable],
) -> CupyBuild | Unavailable:
    """Find the libnvrtc that CuPy would load here, and what that would load."""
    if isinstance(distributions, Unavailable):
        return distributions
    wheels = {each.name: each for each in distributions if _is_wheel(each)}
    if not wheels:
        return Unavailable("no wheel of CuPy is installed", Absence.NOT_APPLICABLE)
    # Several overwrite each other: the last one installed is imported.
    cupy = wheels.get(_read_name(environment), next(iter(wheels.values())))
    soname = f"libnvrtc.so.{_number_of(cupy.name.removeprefix(_PREFIX))}"
    searched = tuple(dict.fromkeys(_find_through_loader(soname, environment)))
    others = tuple(dict.fromkeys(_find_elsewhere(soname, environment)))
    finds_all = Version(str(cupy.version)) >= _FIRST_WITH_PATHFINDER
    return CupyBuild(
        distribution=cupy.name,
        version=str(cupy.version),
        nvrtc=soname,
        findable=(*searched, *others) if finds_all else searched,
        hidden=() if finds_all else others,
        # Newer ones take NVIDIA's wheels first; all that they support ask for their builtins by release.
        builtins=find_builtins(soname, environment, variables) if searched and not finds_all else None,
    )


def _is_wheel(distribution: Distribution) -> bool:
    kinds = {MetadataKind.DIST_INFO, MetadataKind.EGG_INFO}
    is_installed = distribution.metadata_kind in kinds and not distribution.shadowed_by
    return is_installed and isinstance(distribution.version, str) and _WHEEL.fullmatch(distribution.name) is not None


def _read_name(environment: Environment) -> str:
    """Return the name of the wheel whose files lie there; "" when they do not tell."""
    for package in find_import_packages(environment, "cupy")[:1]:
        try:
            cuda = json.loads(read_text(package / ".data" / "_wheel.json", largest=_LONGEST_NOTE))["cuda"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return ""
        return f"{_PREFIX}{cuda}".replace(".", "")
    return ""


def _number_of(cuda: str) -> str:
    """Return the number in the file name for the ``12x``, ``111`` or ``102`` of a wheel's name."""
    major, minor = cuda[:-1], cuda[-1]
    if major == "11":
        return f"11.{_LAST_OF_11 if minor == 'x' else min(int(minor), _LAST_OF_11)}"
    return major if minor == "x" else f"{major}.{minor}"


def _find_through_loader(soname: str, environment: Environment) -> Iterator[str]:
    candidates = [path for path, _ in find_library(soname, Path("/"), os.environ)]
    if environment.kind == "conda":  # its Python finds the libraries in the `lib` beside it through its RPATH
        candidates.append(Path(environment.prefix, "lib", soname))
    yield from (str(path) for path in candidates if os.path.isfile(path))


def _find_elsewhere(soname: str, environment: Environment) -> Iterator[str]:
    major = soname.rpartition(".so.")[2].partition(".")[0]
    toolkits = filter(None, (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME")))
    candidates = [Path(toolkit, "lib64", soname) for toolkit in toolkits]
    for entry in environment.search_path:
        candidates += (
            Path(entry.path, folder, soname) for folder in ("nvidia/cuda_nvrtc/lib", f"nvidia/cu{major}/lib")
        )
    yield from (str(path) for path in candidates if os.path.isfile(path))
