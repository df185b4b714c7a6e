"""Which environment is examined and why, and in which order its interpreter would search for modules."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from envdoctor.errors import EnvironmentNotFoundError, ProbeError
from envdoctor.model.facts import Absence, Environment, PathSource, SearchEntry, Unavailable
from envdoctor.probes import layout
from envdoctor.probes.interpreter import InterpreterAnswer, ask_interpreter, guess_interpreter
from envdoctor.probes.search_path import build_search_path, split_python_path

_VERSION = re.compile(r"\d+(?:\.\d+){0,2}")
_SITE_FOLDER_NAMES = {"site-packages", "dist-packages"}
_METADATA_SUFFIXES = (".dist-info", ".egg-info", ".egg-link", ".egg")


def find_environment(*, python: str, prefix: str) -> Environment:
    """Find the environment that the caller names, or the one that the user works in, and learn its search path.

    Raises:
        EnvironmentNotFoundError: there is none where one is named.

    """
    if python and prefix:
        raise EnvironmentNotFoundError("--python and --prefix may name two environments: give one of them")
    if prefix:
        return _examine_folder(_existing_folder(prefix, "--prefix"), "--prefix")
    if not python:
        return _find_default()
    if _VERSION.fullmatch(python) and not os.path.exists(python):
        return _find_version(python)
    path = Path(python).expanduser()
    if path.is_dir():
        return _examine_folder(path, "--python names its folder")
    return _examine_interpreter(_find_command(path), "--python")


# --- choosing ----------------------------------------------------------------------------------------------------


def _find_default() -> Environment:
    if venv := os.environ.get("VIRTUAL_ENV"):
        return _examine_folder(_existing_folder(venv, "VIRTUAL_ENV"), "VIRTUAL_ENV")
    because = "neither VIRTUAL_ENV nor CONDA_PREFIX is set"
    if conda := os.environ.get("CONDA_PREFIX"):
        folder = _existing_folder(conda, "CONDA_PREFIX")
        if _find_interpreter(folder):
            return _examine_folder(folder, "CONDA_PREFIX")
        because = f"CONDA_PREFIX, `{conda}`, holds no Python"
    failures: list[str] = []
    for command, path in ((command, shutil.which(command)) for command in ("python", "python3")):
        if path is None:
            continue
        try:
            answer = ask_interpreter(Path(path))
        except ProbeError as exc:
            failures.append(str(exc))
            continue
        return _describe(answer, f"`{command}` on PATH; {because}", notes=failures)
    answer = ask_interpreter(Path(sys.executable))
    return _describe(answer, f"envdoctor's own; {because}, and no Python on PATH runs", notes=failures)


def _find_version(version: str) -> Environment:
    wanted = tuple(map(int, version.split(".")))
    failures: list[str] = []
    for interpreter in _candidates(wanted):
        try:
            answer = ask_interpreter(interpreter)
        except ProbeError as exc:
            failures.append(f"; {exc}")
            continue
        if answer.version[: len(wanted)] == wanted:
            return _describe(answer, f"--python {version}, found as `{interpreter}`")
    raise EnvironmentNotFoundError(
        f"no Python {version} is found on PATH or in `{_pyenv_versions()}`{''.join(failures[:1])}"
    )


def _candidates(version: tuple[int, ...]) -> Iterator[Path]:
    names = ("python" + ".".join(map(str, version[:length])) for length in (2, 1, 0))
    for name in dict.fromkeys(names):
        if path := shutil.which(name):
            yield Path(path)
    text = ".".join(map(str, version))
    installed = (path for path in _pyenv_versions().glob(f"{text}*") if re.fullmatch(rf"{text}(\.\d+)*", path.name))
    for folder in sorted(installed, key=lambda path: tuple(map(int, path.name.split("."))), reverse=True):
        yield folder / "bin" / "python"


def _pyenv_versions() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser(), "versions")


def _find_command(path: Path) -> Path:
    if path.exists() or path.is_symlink():
        return Path(os.path.abspath(path))
    if path.name == str(path) and (found := shutil.which(path.name)):
        return Path(found)
    raise EnvironmentNotFoundError(f"--python names `{path}`, which does not exist")


def _existing_folder(text: str, named_by: str) -> Path:
    folder = Path(os.path.abspath(Path(text).expanduser()))
    if folder.is_dir():
        return folder
    raise EnvironmentNotFoundError(
        f"{named_by} names `{text}`, which {'is not a folder' if folder.exists() else 'does not exist'}"
    )


def _find_interpreter(prefix: Path) -> Path | None:
    """Find the interpreter of a prefix; also one that is a dangling link, because its Python is gone."""
    named = (prefix / "bin" / name for name in ("python", "python3", "python2"))
    candidates = (*named, *sorted(prefix.glob("bin/python[23].*[0-9]")))
    return next((path for path in candidates if os.path.lexists(path)), None)


# --- examining ---------------------------------------------------------------------------------------------------


def _examine_folder(folder: Path, because: str) -> Environment:
    if interpreter := _find_interpreter(folder):
        return _examine_interpreter(interpreter, because)
    try:
        answer = guess_interpreter(folder, None)
    except ProbeError:
        return _examine_bare_folder(folder, because)
    examined = _describe(answer, because, notes=[f"`{folder}` holds no interpreter: its files were read alone"])
    return replace(
        examined,
        interpreter=Unavailable(f"`{folder}` holds no bin/python", Absence.NOT_APPLICABLE),
        path_source=PathSource.FILES,
    )


def _examine_interpreter(interpreter: Path, because: str) -> Environment:
    try:
        return _describe(ask_interpreter(interpreter), because)
    except ProbeError as refusal:
        prefix = interpreter.parent.parent
        try:
            answer = guess_interpreter(prefix, interpreter)
        except ProbeError:
            raise EnvironmentNotFoundError(str(refusal)) from refusal
        notes = [f"{refusal}; what it would say was derived from the files of `{prefix}`"]
    return replace(_describe(answer, because, notes=notes), path_source=PathSource.FILES)


def _examine_bare_folder(folder: Path, because: str) -> Environment:
    names = os.listdir(folder)
    if folder.name not in _SITE_FOLDER_NAMES and not any(name.endswith(_METADATA_SUFFIXES) for name in names):
        raise EnvironmentNotFoundError(
            f"`{folder}` is no environment: it holds neither bin/python, nor lib/pythonX.Y, nor installed distributions"
        )
    version = layout.version_of(folder.parent.name)
    reason = "a bare site-packages folder does not tell its Python"
    path = build_search_path((), (SearchEntry(path=str(folder), origin=folder.name),), version or (3,))
    return Environment(
        interpreter=Unavailable(reason, Absence.NOT_APPLICABLE),
        prefix=str(folder),
        kind="bare site-packages",
        chosen_because=because,
        python_version=version or Unavailable(reason, Absence.NOT_APPLICABLE),
        implementation="",
        platform="",
        extension_suffixes=(),
        path_source=PathSource.FILES,
        search_path=path.entries,
        user_site_enabled=False,
        system_site_packages=False,
        notes=path.notes,
    )


def _describe(answer: InterpreterAnswer, because: str, notes: list[str] | None = None) -> Environment:
    prefix = Path(answer.prefix)
    settings = layout.read_venv_settings(prefix)
    python_path = tuple(split_python_path(os.environ.get("PYTHONPATH", "")))
    library = tuple(SearchEntry(path=path, origin="standard library") for path in answer.standard_library)
    site_folders = tuple(
        SearchEntry(path=path, origin=_site_origin(path, answer)) for path in dict.fromkeys(answer.site_folders)
    )
    path = build_search_path(python_path + library, site_folders, answer.version)
    return Environment(
        interpreter=answer.executable,
        prefix=answer.prefix,
        kind="conda" if (prefix / "conda-meta").is_dir() else "venv" if settings else "system",
        chosen_because=because,
        python_version=answer.version,
        implementation=answer.implementation,
        platform=answer.platform,
        extension_suffixes=answer.extension_suffixes,
        path_source=PathSource.INTERPRETER,
        search_path=path.entries,
        user_site_enabled=answer.user_site_enabled,
        system_site_packages=bool(settings and settings.system_site_packages),
        notes=(*(notes or ()), *_notes_on_variables(python_path), *path.notes, *_notes_on_access(path.entries)),
    )


def _site_origin(folder: str, answer: InterpreterAnswer) -> str:
    if folder == answer.user_site:
        return "user site"
    name = os.path.basename(folder)
    is_own = answer.prefix == answer.base_prefix or folder.startswith(answer.prefix + os.sep)
    return name if is_own else f"system {name}"


def _notes_on_variables(python_path: tuple[SearchEntry, ...]) -> Iterator[str]:
    if home := os.environ.get("PYTHONHOME"):
        yield f"PYTHONHOME is set: every Python takes its standard library from `{home}`"
    for entry in python_path:
        if not os.path.exists(entry.path):
            yield f"PYTHONPATH names `{entry.path}`, which does not exist"


def _notes_on_access(entries: tuple[SearchEntry, ...]) -> Iterator[str]:
    for entry in entries:
        if os.path.isdir(entry.path) and not os.access(entry.path, os.R_OK | os.X_OK):
            yield f"`{entry.path}` cannot be read by this user"
