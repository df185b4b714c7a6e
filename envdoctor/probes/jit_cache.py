"""Extensions that torch compiled at run time and keeps in a cache: those that the examined torch would load again."""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from envdoctor.model.arch import Arch
from envdoctor.model.facts import (
    Absence,
    DeviceCode,
    Environment,
    JitExtension,
    LibraryRole,
    TorchBuild,
    Unavailable,
    Variable,
)
from envdoctor.probes.device_code import read_device_code
from envdoctor.probes.foreign_files import as_file_name, find_files, read_head

_BUILD_FILE = "build.ninja"
_LONGEST_BUILD_FILE = 1 << 20
_DEEPEST = 4  # some projects have slashes in the name of an extension, or a version below it

# `get_default_build_root` and `_get_build_directory` in torch/utils/cpp_extension.py.
_FIRST_IN_HOME = (1, 6)  # before: in the folder for temporary files
_FIRST_WITH_TAG = (1, 10)  # before: one cache for every Python and CUDA
# `_jit_compile`: from then on the system holds the lock, and lets go of it with its process; the file stays for good.
_FIRST_WITH_HELD_LOCK = (2, 14)

# Matched word by word: the time of a search for words of any length would grow with the square of theirs.
_GENCODE = re.compile(r"(?:-gencode=)?arch=[^,]*,code=(.*)")
_ARCH = re.compile(r"\b(?:sm|compute)_\d{2,3}[af]?\b")
_TORCH_INCLUDE = re.compile(r"(?:-I)?(.*/torch/include)")
_DEFAULT_TARGET = re.compile(r"^default (\S+)$", re.MULTILINE)
_SOURCE = re.compile(r"^build .*?: \w*compile (.+)$", re.MULTILINE)
_ESCAPED = re.compile(r"\$(.)")  # in paths that ninja reads


def find_jit_extensions(
    environment: Environment, torch: TorchBuild | Unavailable, variables: tuple[Variable, ...]
) -> tuple[JitExtension, ...] | Unavailable:
    """Find the compiled extensions in the cache that this torch uses under this Python."""
    if isinstance(torch, Unavailable):
        return torch
    named = {variable.name: variable.value for variable in variables}
    root = _cache_root(torch, named.get("TORCH_EXTENSIONS_DIR", ""))
    has_tags = "TORCH_EXTENSIONS_DIR" not in named and _release(torch) >= _FIRST_WITH_TAG
    folders = find_files(root, _tag_pattern(environment, torch)) if has_tags else [root]
    found = [extension for folder in folders for extension in _find_extensions(folder, folder.name if has_tags else "")]
    if _release(torch) >= _FIRST_WITH_HELD_LOCK:
        found = [replace(extension, lock_age_seconds=None) for extension in found]
    if not found:
        return Unavailable(f"torch keeps no compiled extension of this Python in `{root}`", Absence.NOT_APPLICABLE)
    return tuple(found)


def find_jit_libraries(
    extensions: tuple[JitExtension, ...] | Unavailable, torch: TorchBuild | Unavailable
) -> Iterator[str]:
    """Find the libraries that torch would import from its cache as they are, by path.

    Before each import it has ninja compile what is out of date: everything where a flag changed, and so where the
    headers were those of another torch; or what is older than its sources. Sources that are gone cannot be asked for.
    While somebody compiles, nothing is certain.
    """
    if isinstance(extensions, Unavailable) or isinstance(torch, Unavailable):
        return
    for extension in extensions:
        is_idle = extension.lock_age_seconds is None
        if extension.library and is_idle and _is_of(extension, torch) and _is_up_to_date(extension):
            yield extension.library


def read_jit_device_code(extensions: tuple[JitExtension, ...] | Unavailable, *, deep: bool) -> Iterator[DeviceCode]:
    """Read the device code of compiled extensions; left out are those without any, but not unreadable ones."""
    for extension in () if isinstance(extensions, Unavailable) else extensions:
        if extension.library:
            code = read_device_code(extension.library, role=LibraryRole.JIT, deep=deep)
            if code.containers or code.unreadable:
                yield code


def _cache_root(torch: TorchBuild, named: str) -> Path:
    if named:
        return Path(named)
    if _release(torch) < _FIRST_IN_HOME:
        return Path(tempfile.gettempdir(), "torch_extensions")
    # `user_cache_dir` in torch/_appdirs.py, to the letter: also where there is no home, and the variable is odd.
    return Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "torch_extensions")


def _release(torch: TorchBuild) -> tuple[int, ...]:
    try:
        return Version(torch.version).release
    except ValueError:  # also of numbers that are too long for Python
        return _FIRST_WITH_TAG


def _tag_pattern(environment: Environment, torch: TorchBuild) -> str:
    """Return a pattern for e.g. ``py38_cu111``: after the Python may come its flags (``py313t``)."""
    version = environment.python_version
    python = "" if isinstance(version, Unavailable) else "".join(map(str, version[:2]))
    return f"py{python}*_{torch.build_cuda_version.tag if torch.build_cuda_version else 'cpu'}"


def _find_extensions(cache: Path, tag: str) -> Iterator[JitExtension]:
    for folder, subfolders, names in os.walk(cache):
        depth = len(Path(folder).relative_to(cache).parts)
        subfolders[:] = sorted(subfolders) if depth < _DEEPEST else []
        if depth and (_BUILD_FILE in names or any(name.endswith(".so") for name in names)):
            yield _read_extension(Path(folder), cache, tag)


def _read_extension(folder: Path, cache: Path, tag: str) -> JitExtension:
    build = _read_build_file(folder / _BUILD_FILE)
    words = build.split()
    codes = (code for flag in map(_GENCODE.fullmatch, words) if flag for code in _ARCH.findall(flag[1]))
    include = next(filter(None, map(_TORCH_INCLUDE.fullmatch, words)), None)
    return JitExtension(
        name=str(folder.relative_to(cache)),
        folder=str(folder),
        cache_tag=tag,
        library=_find_library(folder, build),
        gencode=tuple(Arch.parse(code) for code in dict.fromkeys(codes)),
        torch_include=include[1] if include else "",
        lock_age_seconds=_age(folder / "lock"),
    )


def _read_build_file(path: Path) -> str:
    try:
        return as_file_name(read_head(path, _LONGEST_BUILD_FILE).decode("utf-8", "surrogateescape"))
    except OSError:
        return ""


def _find_library(folder: Path, build: str) -> str:
    """Find what the build makes, "" when it has not (yet) been made."""
    target = _DEFAULT_TARGET.search(build)
    candidates = [folder / target[1]] if target else find_files(folder, "*.so")
    return next((str(library) for library in candidates if os.path.isfile(library)), "")


def _is_of(extension: JitExtension, torch: TorchBuild) -> bool:
    try:
        return os.path.samefile(extension.torch_include, os.path.join(torch.root, "include"))
    except OSError:  # that torch is gone
        return False


def _is_up_to_date(extension: JitExtension) -> bool:
    build = _read_build_file(Path(extension.folder, _BUILD_FILE))
    sources = (_ESCAPED.sub(r"\1", source) for source in _SOURCE.findall(build))
    try:
        built = os.stat(extension.library).st_mtime
        return all(os.stat(os.path.join(extension.folder, source)).st_mtime <= built for source in sources)
    except OSError:
        return False


def _age(path: Path) -> float | None:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return None
