"""CuPy, and where the compiler lies that it loads by name: it brings none of its own."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from envdoctor.model.facts import Absence, CupyBuild, Distribution, Environment, MetadataKind, Unavailable
from envdoctor.probes.driver_libraries import find_library

_WHEEL = re.compile(r"cupy-cuda(?P<cuda>\d+)(?P<is_major>x?)$")
# The libnvrtc of CUDA 11.2 and later keeps its name up to 11.8 (CUDA C++ "NVRTC", Versioning Scheme).
_LAST_OF_11 = 2
# Since 14, cuda-pathfinder looks for CuPy in the folders of NVIDIA's wheels and of CUDA_HOME.
_FIRST_WITH_PATHFINDER = Version("14.0.0a1")


def read_cupy_build(
    environment: Environment, distributions: tuple[Distribution, ...] | Unavailable
) -> CupyBuild | Unavailable:
    """Find the libnvrtc that CuPy would load here."""
    if isinstance(distributions, Unavailable):
        return distributions
    kinds = {MetadataKind.DIST_INFO, MetadataKind.EGG_INFO}
    for each in distributions:
        match = _WHEEL.match(each.name)
        if match and isinstance(each.version, str) and each.metadata_kind in kinds and not each.shadowed_by:
            soname = f"libnvrtc.so.{_number_of(match['cuda'], is_major=bool(match['is_major']))}"
            searched = tuple(dict.fromkeys(_find_through_loader(soname, environment)))
            others = tuple(dict.fromkeys(_find_elsewhere(soname, environment)))
            finds_all = Version(each.version) >= _FIRST_WITH_PATHFINDER
            return CupyBuild(
                distribution=each.name,
                version=each.version,
                nvrtc=soname,
                findable=(*searched, *others) if finds_all else searched,
                hidden=() if finds_all else others,
            )
    return Unavailable("no wheel of CuPy is installed", Absence.NOT_APPLICABLE)


def _number_of(cuda: str, *, is_major: bool) -> str:
    """Return the number in the file name for ``cupy-cuda12x``, ``cupy-cuda111``, ``cupy-cuda102``."""
    if is_major:
        return f"11.{_LAST_OF_11}" if cuda == "11" else cuda
    major, minor = cuda[:-1], cuda[-1]
    return f"{major}.{min(int(minor), _LAST_OF_11) if major == '11' else minor}"


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
