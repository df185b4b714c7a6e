"""CUDA toolkits and host compilers: what extensions would be built with here."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from envdoctor.model.facts import HostCompiler, Toolchain, Toolkit, Unavailable, Variable
from envdoctor.model.versions import CudaVersion
from envdoctor.probes.children import Child
from envdoctor.probes.foreign_files import read_head

_DEADLINE_SECONDS = 5.0
_DEFAULT_HOME = Path("/usr/local/cuda")
_COMPILER_VARIABLES = ("CUDAHOSTCXX", "NVCC_CCBIN", "CXX", "CC")
_COMPILER_COMMANDS = ("c++", "g++", "gcc", "clang++")
_WRAPPERS = frozenset({"ccache", "distcc", "sccache"})
# Files that name the version of the toolkit that they belong to; cuda.h is long, but says it at its head.
_VERSION_FILES: tuple[tuple[str, bytes, Callable[[str], CudaVersion]], ...] = (
    (
        "version.json",
        rb'"cuda"\s*:\s*{[^}]{0,200}"version"\s*:\s*"(\d{1,2}\.\d{1,2})',
        CudaVersion.parse,
    ),  # from 11.1 on
    ("version.txt", rb"CUDA Version (\d{1,2}\.\d{1,2})\b", CudaVersion.parse),  # to 11.0
    ("include/cuda.h", rb"#define CUDA_VERSION ([1-9]\d{3,4})\b", lambda number: CudaVersion.from_number(int(number))),
)
_HEAD = 1 << 16
_HEAD_OF_ANSWER = 1 << 12
# What `--version` says: "g++ (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0", "Debian clang version 14.0.6".
_COMPILERS = {
    "clang": r"clang version (\d+(?:\.\d+)+)",
    "gcc": r"^[^\n]*\) (\d+(?:\.\d+)+)[^\n]*\n[^\n]*Free Software Foundation",
}


def read_toolchain(variables: tuple[Variable, ...], default_home: Path = _DEFAULT_HOME) -> Toolchain:
    """Find toolkits and compilers; where files do not tell a version, the program is asked, all programs at once."""
    values = {variable.name: variable.value for variable in variables}
    toolkits = dict(_unique(_find_nvcc(values, default_home)))
    compilers = dict(_unique(_find_compilers(values)))
    known = {nvcc: version for nvcc in toolkits if (version := _read_toolkit_version(Path(nvcc)))}
    answers = _ask_versions([program for program in (*toolkits, *compilers) if program not in known])
    return Toolchain(
        toolkits=tuple(
            Toolkit(
                nvcc=nvcc,
                toolkit_version=known.get(nvcc) or _parse_nvcc(answers[nvcc]),
                found_through=found_through,
            )
            for nvcc, found_through in toolkits.items()
        ),
        compilers=tuple(
            _parse_compiler(path, found_through, answers[path]) for path, found_through in compilers.items()
        ),
    )


def _unique(found: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Keep the first of the names that lead to one file."""
    seen = set()
    for path, found_through in found:
        if (resolved := os.path.realpath(path)) not in seen:
            seen.add(resolved)
            yield path, found_through


def _find_nvcc(values: Mapping[str, str], default_home: Path) -> Iterator[tuple[str, str]]:
    """Look where torch does, in its order (torch.utils.cpp_extension, `_find_cuda_home`)."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if (nvcc := Path(values.get(name, ""), "bin/nvcc")).is_absolute() and os.path.isfile(nvcc):
            yield str(nvcc), name
    if on_path := shutil.which("nvcc", path=values.get("PATH")):
        yield on_path, "PATH"
    if os.path.isfile(nvcc := default_home / "bin/nvcc"):
        yield str(nvcc), str(default_home)


def _read_toolkit_version(nvcc: Path) -> CudaVersion | None:
    """Read the version from the files around *nvcc*, None where they do not tell."""
    home = Path(os.path.realpath(nvcc)).parent.parent
    for name, pattern, parse in _VERSION_FILES:
        if found := re.search(pattern, _read_head(home / name)):
            return parse(found[1].decode())
    return None


def _read_head(path: Path) -> bytes:
    try:
        return read_head(path, _HEAD)
    except OSError:
        return b""


def _find_compilers(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    search_path = values.get("PATH")
    for name in _COMPILER_VARIABLES:
        if program := _program(values.get(name, "")):
            yield shutil.which(program, path=search_path) or program, name
    for command in _COMPILER_COMMANDS:
        if on_path := shutil.which(command, path=search_path):
            yield on_path, f"PATH {command}"


def _program(command_line: str) -> str:
    """Return the compiler that a variable such as ``CXX="ccache g++-11 -m64"`` names."""
    try:
        words = shlex.split(command_line)
    except ValueError:  # a quotation that is not closed: no shell would run it
        return command_line
    return next((word for word in words if word not in _WRAPPERS), "")


def _ask_versions(programs: list[str]) -> dict[str, str | Unavailable]:
    """Ask every program for its version, all at once."""
    with ExitStack() as running:
        children = {program: _start(program, running) for program in programs}
        return {program: _read(child) for program, child in children.items()}


def _start(program: str, running: ExitStack) -> Child | Unavailable:
    try:
        child = Child([program, "--version"], _DEADLINE_SECONDS)
    except OSError as exc:
        return Unavailable(f"{program}: {exc.strerror}")
    running.callback(child.stop)
    return child


def _read(child: Child | Unavailable) -> str | Unavailable:
    if isinstance(child, Unavailable):
        return child
    ending = child.finish()
    return Unavailable(ending.given_up) if ending.given_up else ending.answer[:_HEAD_OF_ANSWER].decode(errors="replace")


def _parse_nvcc(answer: str | Unavailable) -> CudaVersion | Unavailable:
    if isinstance(answer, Unavailable):
        return answer
    found = re.search(r"release (\d{1,2}\.\d{1,2})\b", answer)
    return CudaVersion.parse(found[1]) if found else Unavailable("`nvcc --version` names no release")


def _parse_compiler(path: str, found_through: str, answer: str | Unavailable) -> HostCompiler:
    text = "" if isinstance(answer, Unavailable) else answer
    for kind, pattern in _COMPILERS.items():
        if found := re.search(pattern, text):
            return HostCompiler(path=path, kind=kind, version=found[1], found_through=found_through)
    reason = answer if isinstance(answer, Unavailable) else Unavailable("neither gcc nor clang by its `--version`")
    return HostCompiler(path=path, kind="unknown", version=reason, found_through=found_through)
