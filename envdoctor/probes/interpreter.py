"""The examined Python: asked for its paths and tags by a child process, or guessed from its files if it cannot run."""

import importlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from envdoctor.errors import ProbeError
from envdoctor.probes import layout
from envdoctor.probes.children import Child
from envdoctor.probes.foreign_files import as_file_name

_CHILD = Path(__file__).with_name("interpreter_child.py")
_ANSWER = b"envdoctor-answer: "
_DEADLINE_SECONDS = 10

# Variables that move the interpreter itself. PYTHONPATH is left out: its modules would stand in for the standard
# library's while the interpreter starts. It joins the search path afterwards, unread.
_KEPT_VARIABLES = {"PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONNOUSERSITE", "PYTHONUSERBASE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterAnswer:
    """What one interpreter says about itself, before any .pth file is read."""

    executable: str
    prefix: str
    base_prefix: str  # of the Python that a venv was made from; `prefix` otherwise
    version: tuple[int, ...]
    implementation: str
    platform: str
    extension_suffixes: tuple[str, ...]
    standard_library: tuple[str, ...]  # `sys.path` without PYTHONPATH and site
    site_folders: tuple[str, ...]  # in the order in which site treats them, user site among them
    user_site: str
    user_site_enabled: bool


class _SitePaths(TypedDict):
    site_folders: tuple[str, ...]
    user_site: str
    user_site_enabled: bool


# --- asking ------------------------------------------------------------------------------------------------------


def ask_interpreter(interpreter: Path) -> InterpreterAnswer:
    """Start *interpreter*, without its site module, and ask it.

    Raises:
        ProbeError: it does not start, does not answer in time, or answers nonsense.

    """
    lines = [line for line in _run(interpreter).splitlines() if line.startswith(_ANSWER)]
    try:
        return _answer(_decode(lines[-1].removeprefix(_ANSWER)))
    # All that JSON of another shape gives.
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise ProbeError(f"`{interpreter}` does not answer as a Python does") from exc


def _run(interpreter: Path) -> bytes:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") or name in _KEPT_VARIABLES
    }
    try:
        child = Child([interpreter, "-B", "-S", _CHILD], _DEADLINE_SECONDS, environment=environment)
    except OSError as exc:
        raise ProbeError(f"`{interpreter}` does not start: {exc.strerror}") from exc
    # It takes as long to start as what is needed next takes to load.
    importlib.import_module("envdoctor.probes.loader")
    ending = child.finish()
    if ending.given_up:
        raise ProbeError(f"`{interpreter}` was {ending.given_up}")
    if ending.status != 0:
        raise ProbeError(f"`{interpreter}` ended with status {ending.status}: {ending.complaint}")
    return ending.answer


def _decode(line: bytes) -> dict[str, tuple[str, ...]]:
    # The child writes every byte of a text as one character (see there).
    return {
        name: tuple(as_file_name(os.fsdecode(value.encode("latin-1"))) for value in values)
        for name, values in json.loads(line).items()
    }


def _answer(told: dict[str, tuple[str, ...]]) -> InterpreterAnswer:
    [prefix], [base_prefix], [version] = told["prefix"], told["base_prefix"], told["version"]
    answer = InterpreterAnswer(
        executable=told["executable"][0],
        prefix=prefix,
        base_prefix=base_prefix,
        version=tuple(map(int, version.split("."))),
        implementation=told["implementation"][0],
        platform=next(iter(told["platform"]), _this_platform()),
        extension_suffixes=told["extension_suffixes"],
        standard_library=told["standard_library"],
        site_folders=told.get("site_folders", ()),
        user_site=next(iter(told.get("user_site", ())), ""),
        user_site_enabled=bool(told.get("user_site_enabled")),
    )
    return answer if "site_folders" in told else _with_paths_of_site(answer)


def _with_paths_of_site(answer: InterpreterAnswer) -> InterpreterAnswer:
    """Add what the site module of Python 2, or of a virtualenv made before virtualenv 20, would have found."""
    prefix, library_name = Path(answer.prefix), "python{}.{}".format(*answer.version)
    settings = layout.read_venv_settings(prefix)
    base_prefix = (settings and settings.base_prefix) or answer.prefix
    return replace(
        answer,
        base_prefix=base_prefix,
        standard_library=tuple(_library_paths(answer, base_prefix, legacy=bool(settings and settings.legacy))),
        **_paths_of_site(prefix, settings, library_name),
    )


def _library_paths(answer: InterpreterAnswer, base_prefix: str, *, legacy: bool) -> Iterator[str]:
    if not legacy:
        yield from (path.replace(answer.prefix, base_prefix, 1) for path in answer.standard_library)
        return
    # virtualenv copied a part of the library, and its site module appends the rest (virtual_install_main_packages).
    yield from answer.standard_library
    library = Path(base_prefix, "lib", "python{}.{}".format(*answer.version))
    yield str(library)
    yield from (str(folder) for folder in (library / "plat-linux2", library / "lib-tk") if os.path.exists(folder))


def _paths_of_site(prefix: Path, settings: layout.VenvSettings | None, library_name: str) -> _SitePaths:
    own = tuple(layout.find_site_folders(prefix, library_name))
    user_site = layout.user_site(library_name)
    enabled = layout.is_user_site_wanted() and (settings is None or settings.system_site_packages)
    user = (user_site,) if enabled and os.path.isdir(user_site) else ()
    if settings is None:
        folders = user + own
    elif settings.system_site_packages:
        folders = own + user + tuple(layout.find_site_folders(Path(settings.base_prefix), library_name))
    else:
        folders = own
    return {"site_folders": folders, "user_site": user_site, "user_site_enabled": enabled}


def _this_platform() -> str:
    system = os.uname()
    return f"{system.sysname.lower()}-{system.machine}"


# --- guessing ----------------------------------------------------------------------------------------------------


def guess_interpreter(prefix: Path, interpreter: Path | None) -> InterpreterAnswer:
    """Say what the Python of *prefix* would answer, from the files around it.

    Raises:
        ProbeError: *prefix* is not laid out as the prefix of that Python is.

    """
    library_name = _choose_library(prefix, interpreter)
    version = layout.version_of(library_name)
    settings = layout.read_venv_settings(prefix)
    base_prefix = Path((settings and settings.base_prefix) or prefix)
    library = base_prefix / "lib" / library_name
    return InterpreterAnswer(
        executable=str(interpreter or ""),
        prefix=str(prefix),
        base_prefix=str(base_prefix),
        version=settings.version if settings and settings.version[:2] == version else version,
        implementation="cpython",
        platform=_this_platform(),
        extension_suffixes=_guess_extension_suffixes(library_name),
        standard_library=(
            str(library.with_name("python{}{}.zip".format(*version))),
            str(library),
            str(library / "lib-dynload"),
        ),
        **_paths_of_site(prefix, settings, library_name),
    )


def _choose_library(prefix: Path, interpreter: Path | None) -> str:
    found = layout.find_library_names(prefix)
    # bin/python leads to a name that tells the version, as a rule: python3.8.
    name = os.path.basename(os.path.realpath(interpreter)) if interpreter else "python"
    if name in found:
        return name
    if found and re.fullmatch(r"python\d?", name):
        return found[-1]
    raise ProbeError(f"`{prefix}` holds no lib/{name}")


def _guess_extension_suffixes(library_name: str) -> tuple[str, ...]:
    version = layout.version_of(library_name)
    if version < (3,):
        return (".so", "module.so")
    # PEP 3149: `m` stood for pymalloc until Python 3.7, `t` stands for free threading.
    flag = "m" if version < (3, 8) else "t" if library_name.endswith("t") else ""
    tag = "{}{}".format(*version) + flag
    return (f".cpython-{tag}-{os.uname().machine}-linux-gnu.so", ".abi3.so", ".so")
