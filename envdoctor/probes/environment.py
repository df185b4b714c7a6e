"""Which environment is examined and why, and in which order its interpreter would search for modules."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from envdoctor.errors import EnvironmentNotFoundError, ProbeError
from envdoctor.model.facts import Absence, Environment, PathSource, SearchEntry, Unavailable
from envdoctor.probes import layout
from envdoctor.probes.foreign_files import find_files, is_locked, read_head
from envdoctor.probes.interpreter import InterpreterAnswer, ask_interpreter, guess_interpreter
from envdoctor.probes.search_path import absolute, build_search_path, split_python_path

_VERSION = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,2}")
_SITE_FOLDER_NAMES = {"site-packages", "dist-packages"}
_MANAGED = (
    "this Python belongs to the system: pip changes it with --break-system-packages only (PEP 668); a virtual "
    "environment keeps clear of the system's packages"
)
_METADATA_SUFFIXES = (".dist-info", ".egg-info", ".egg-link", ".egg")


def find_environment(*, python: str, prefix: str) -> Environment:
    """Find the environment that the caller names, or the one that the user works in, and learn its search path.

    Raises:
        EnvironmentNotFoundError: there is none where one is named.

    """
    if python and prefix:
        raise EnvironmentNotFoundError("--python and --prefix may name two environments: give one of them")
    if prefix:
        return _examine_folder(prefix, "--prefix")
    if not python:
        return _find_default()
    if _VERSION.fullmatch(python):
        return _find_version(python)
    if os.sep not in python and (command := shutil.which(python)):
        return _examine_interpreter(Path(command), "--python")
    path = absolute(os.path.expanduser(python))
    if os.path.isdir(path):
        return _examine_folder(python, "--python")
    if os.path.lexists(path):
        return _examine_interpreter(Path(path), "--python")
    raise EnvironmentNotFoundError(f"--python names `{python}`, which does not exist")


# --- choosing ----------------------------------------------------------------------------------------------------


def _find_default() -> Environment:
    if venv := os.environ.get("VIRTUAL_ENV"):
        return _with_other_python(_examine_folder(venv, "VIRTUAL_ENV"))
    because = "neither VIRTUAL_ENV nor CONDA_PREFIX is set"
    if conda := os.environ.get("CONDA_PREFIX"):
        if _find_interpreter(Path(conda)) or not os.path.isdir(conda):
            return _with_other_python(_examine_folder(conda, "CONDA_PREFIX"))
        because = f"CONDA_PREFIX, `{conda}`, holds no Python"
    failures: list[str] = []
    on_path = ((command, shutil.which(command)) for command in ("python", "python3"))
    for command, path in on_path:
        if path is None:
            continue
        answer = _ask(Path(path))
        if isinstance(answer, InterpreterAnswer):
            return _describe(answer, f"`{command}` on PATH; {because}", failures)
        failures.append(str(answer))
    because = f"envdoctor's own; {because}, and no Python on PATH runs"
    return _examine_interpreter(Path(sys.executable), because, failures)


def _find_version(version: str) -> Environment:
    wanted = tuple(map(int, version.split(".")))
    failures: list[str] = []
    for interpreter in _find_candidates(wanted):
        answer = _ask(interpreter)
        if not isinstance(answer, InterpreterAnswer):
            failures.append(f"; {answer}")
        elif answer.version[: len(wanted)] == wanted:
            return _describe(answer, f"--python {version}, found as `{interpreter}`")
    raise EnvironmentNotFoundError(
        f"there is no Python {version} on PATH or in `{_pyenv_versions()}`{''.join(failures[:1])}"
    )


def _ask(interpreter: Path) -> InterpreterAnswer | ProbeError:
    try:
        return ask_interpreter(interpreter)
    except ProbeError as exc:
        return exc


def _find_candidates(version: tuple[int, ...]) -> Iterator[Path]:
    text = ".".join(map(str, version))
    on_path = map(shutil.which, ("python" + ".".join(map(str, version[:2])), "python3", "python"))
    precise, *vague = (Path(path) if path else None for path in on_path)
    installed = (
        path for path in find_files(_pyenv_versions(), f"{text}*") if re.fullmatch(rf"{text}(\.\d+)*", path.name)
    )
    newest_first = sorted(installed, key=lambda path: tuple(map(int, path.name.split("."))), reverse=True)
    yield from filter(None, (precise, *(folder / "bin" / "python" for folder in newest_first), *vague))


def _pyenv_versions() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions")


def _find_interpreter(prefix: Path) -> Path | None:
    """Find the interpreter of a prefix; also one that is a dangling link, because its Python is gone."""
    usual = (prefix / "bin" / name for name in ("python", "python3", "python2"))
    candidates = (*usual, *find_files(prefix, "bin/python[23].*[0-9]"))
    return next((path for path in candidates if os.path.lexists(path)), None)


def _with_other_python(environment: Environment) -> Environment:
    """Add what `python` starts where the user works in one environment and PATH leads to another."""
    found = shutil.which("python")
    if not found or _is_script(found) or _are_same(os.path.dirname(found), os.path.join(environment.prefix, "bin")):
        return environment
    return replace(environment, other_python=found)


def _are_same(folder: str, other: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)


def _is_script(path: str) -> bool:
    """Tell whether a command is a script, as the shims of pyenv are: it may well start the Python that is meant."""
    try:
        return read_head(path, 2) == b"#!"
    except OSError:
        return False


# --- examining ---------------------------------------------------------------------------------------------------


def _examine_folder(text: str, named_by: str) -> Environment:
    folder = Path(absolute(os.path.expanduser(text)))
    if not os.path.isdir(folder):
        complaint = "is not a folder" if os.path.lexists(folder) else "does not exist"
        raise EnvironmentNotFoundError(f"{named_by} names `{text}`, which {complaint}")
    if interpreter := _find_interpreter(folder):
        examined = _examine_interpreter(interpreter, named_by)
        is_other = not _are_same(examined.prefix, str(folder))
        note = f"`{interpreter}` does not belong to `{folder}`: its prefix is `{examined.prefix}`"
        return replace(examined, notes=(note, *examined.notes)) if is_other else examined
    try:
        answer = guess_interpreter(folder, None)
    except ProbeError:
        return _examine_bare_folder(folder, named_by)
    return replace(
        _describe(answer, named_by, [f"`{folder}` holds no bin/python: what it would say was derived from its files"]),
        interpreter=Unavailable(f"`{folder}` holds no bin/python", Absence.NOT_APPLICABLE),
        path_source=PathSource.FILES,
    )


def _examine_interpreter(interpreter: Path, because: str, notes: Iterable[str] = ()) -> Environment:
    try:
        return _describe(ask_interpreter(interpreter), because, notes)
    except ProbeError as refusal:
        prefix = interpreter.parent.parent
        try:
            answer = guess_interpreter(prefix, interpreter)
        except ProbeError:
            raise EnvironmentNotFoundError(str(refusal)) from refusal
        note = f"{refusal}; what it would say was derived from the files of `{prefix}`"
    return replace(_describe(answer, because, (*notes, note)), path_source=PathSource.FILES)


def _examine_bare_folder(folder: Path, named_by: str) -> Environment:
    try:
        names = os.listdir(folder)
    except OSError as exc:
        raise EnvironmentNotFoundError(f"{named_by} names `{folder}`, which cannot be read: {exc.strerror}") from exc
    if folder.name not in _SITE_FOLDER_NAMES and not any(name.endswith(_METADATA_SUFFIXES) for name in names):
        raise EnvironmentNotFoundError(
            f"{named_by} names `{folder}`, which holds no bin/python, no lib/pythonX.Y and no installed distributions"
        )
    version = layout.version_of(folder.parent.name)
    reason = "a bare site-packages folder does not tell its Python"
    path = build_search_path((), (SearchEntry(path=str(folder), origin="site-packages"),), version or (3,))
    return Environment(
        interpreter=Unavailable(reason, Absence.NOT_APPLICABLE),
        prefix=str(folder),
        kind="bare site-packages",
        chosen_because=named_by,
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


def _describe(answer: InterpreterAnswer, because: str, notes: Iterable[str] = ()) -> Environment:
    prefix = Path(answer.prefix)
    settings = layout.read_venv_settings(prefix)
    python_path = tuple(split_python_path(os.environ.get("PYTHONPATH", "")))
    library = tuple(SearchEntry(path=path, origin="standard library") for path in answer.standard_library)
    folders = dict.fromkeys((*_find_locked_folder(prefix, answer), *answer.site_folders))
    site_folders = tuple(SearchEntry(path=path, origin=_site_origin(path, answer)) for path in folders)
    path = build_search_path(python_path + library, site_folders, answer.version)
    is_managed = not settings and _is_externally_managed(answer)
    return Environment(
        interpreter=answer.executable,
        prefix=answer.prefix,
        kind="conda" if os.path.isdir(prefix / "conda-meta") else "venv" if settings else "system",
        chosen_because=because,
        python_version=answer.version,
        implementation=answer.implementation,
        platform=answer.platform,
        extension_suffixes=answer.extension_suffixes,
        path_source=PathSource.INTERPRETER,
        search_path=path.entries,
        user_site_enabled=answer.user_site_enabled,
        system_site_packages=bool(settings and settings.system_site_packages),
        externally_managed=is_managed,
        notes=(
            *notes,
            *_notes_on_variables(python_path),
            *path.notes,
            *_notes_on_folders(path.entries),
            *((_MANAGED,) if is_managed else ()),
        ),
    )


def _find_locked_folder(prefix: Path, answer: InterpreterAnswer) -> Iterator[str]:
    """Find the site-packages that the interpreter does not see either, because this user cannot enter a folder."""
    folder = prefix / "lib" / "python{}.{}".format(*answer.version) / "site-packages"
    if is_locked(folder):
        yield str(folder)


def _is_externally_managed(answer: InterpreterAnswer) -> bool:
    """Tell whether the marker of PEP 668 lies in the standard library; virtual environments pip does not ask for it."""
    return any(os.path.exists(os.path.join(folder, "EXTERNALLY-MANAGED")) for folder in answer.standard_library)


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


def _notes_on_folders(entries: tuple[SearchEntry, ...]) -> Iterator[str]:
    for entry in entries:
        if is_locked(entry.path):
            yield f"`{entry.path}` cannot be read by this user"
        if entry.origin == "standard library":  # what a distributor adds there is part of its Python
            continue
        for name in ("sitecustomize.py", "usercustomize.py"):
            if os.path.isfile(customisation := os.path.join(entry.path, name)):
                yield f"`{customisation}` runs at every start, and was not followed"
