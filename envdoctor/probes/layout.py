"""What the folders of a prefix tell about its Python, which is not run: the rules of site.py and virtualenv."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envdoctor.probes.foreign_files import find_files, read_text

_LIBRARY_NAME = re.compile(r"python(\d)\.(\d{1,2})t?")
_LARGEST_SETTINGS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VenvSettings:
    """How a venv was made, from its `pyvenv.cfg`, or from the files that virtualenv wrote before release 20."""

    base_prefix: str  # "" when it is not told
    version: tuple[int, ...]  # () when it is not told
    system_site_packages: bool
    legacy: bool  # made by virtualenv before release 20: it has a site module of its own


def read_venv_settings(prefix: Path) -> VenvSettings | None:
    """Read how the venv at *prefix* was made; None when *prefix* is no venv."""
    try:
        lines = read_text(prefix / "pyvenv.cfg", largest=_LARGEST_SETTINGS).splitlines()
    except OSError:
        return _read_legacy_settings(prefix)
    settings = {key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    # `version` is what venv writes, `version_info` what virtualenv and uv write: 3.8.18 or 3.8.18.final.0
    version = re.match(r"\d{1,3}(?:\.\d{1,3})*", settings.get("version") or settings.get("version_info", ""))
    home = settings.get("home", "")
    return VenvSettings(
        base_prefix=settings.get("base-prefix") or (str(Path(home).parent) if home else ""),
        version=tuple(map(int, version[0].split("."))) if version else (),
        system_site_packages=settings.get("include-system-site-packages", "").lower() == "true",
        legacy=False,
    )


def _read_legacy_settings(prefix: Path) -> VenvSettings | None:
    for name in find_library_names(prefix):
        try:
            base_prefix = read_text(prefix / "lib" / name / "orig-prefix.txt", largest=_LARGEST_SETTINGS)
        except OSError:
            continue
        closed = prefix / "lib" / name / "no-global-site-packages.txt"
        return VenvSettings(
            base_prefix=base_prefix.strip(),
            version=version_of(name),
            system_site_packages=not os.path.exists(closed),
            legacy=True,
        )
    return None


def find_library_names(prefix: Path) -> list[str]:
    """Find the Pythons whose library lies in *prefix*, as folder names like `python3.8`, oldest first."""
    paths = (path for libdir in ("lib64", "lib") for path in find_files(prefix, f"{libdir}/python*"))
    names = {path.name for path in paths if os.path.isdir(path)}
    return sorted(filter(_LIBRARY_NAME.fullmatch, names), key=version_of)


def version_of(library_name: str) -> tuple[int, ...]:
    """Return (3, 8) for `python3.8`; () when the name is not of that form."""
    match = _LIBRARY_NAME.fullmatch(library_name)
    return (int(match[1]), int(match[2])) if match else ()


def find_site_folders(prefix: Path, library_name: str) -> Iterator[str]:
    """Find the site-packages folders of *prefix*, those of Debian and Fedora too, in the order of site.py."""
    is_python2 = library_name.startswith("python2")
    candidates = [
        *(prefix / libdir / library_name / "site-packages" for libdir in _library_folders(prefix)),
        prefix / "lib" / "site-python" if is_python2 else None,
        prefix / "local" / "lib" / library_name / "dist-packages",
        prefix / "lib" / (library_name if is_python2 else "python3") / "dist-packages",
    ]
    yield from (str(folder) for folder in candidates if folder and os.path.isdir(folder))


def _library_folders(prefix: Path) -> tuple[str, ...]:
    # In a venv lib64 is a link to lib; only where it is a folder does Python look into both (`sys.platlibdir`).
    return ("lib",) if os.path.islink(prefix / "lib64") else ("lib64", "lib")


def user_site(library_name: str) -> str:
    """Return the folder of `pip install --user` (site.getusersitepackages)."""
    base = os.environ.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")
    return os.path.join(base, "lib", library_name, "site-packages")


def is_user_site_wanted() -> bool:
    """Tell whether Python would use the user site at all (site.check_enableusersite)."""
    is_same_user = os.getuid() == os.geteuid() and os.getgid() == os.getegid()
    return is_same_user and not os.environ.get("PYTHONNOUSERSITE")
