"""Small wheels, and the real pip that installs them: for the tests of what installers leave behind."""

import subprocess
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, *modules: str, requires: str = "") -> Path:
    """Write a wheel of *modules*, each of which is a line of code."""
    dist_info = f"{name}-{version}.dist-info"
    requirement = f"Requires-Dist: {requires}\n" if requires else ""
    files = {module: f"name = {module!r}\n" for module in modules} | {
        f"{dist_info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}",
        f"{dist_info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},," for path in (*files, f"{dist_info}/RECORD")]
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{dist_info}/RECORD": "\n".join(record) + "\n"}).items():
            archive.writestr(path, text)
    return wheel


def pip(python: Path, *arguments: str | Path, **variables: str) -> None:
    """Let the pip of *python* work, without any index."""
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, env={"PIP_CONFIG_FILE": "/dev/null"} | variables)


def install(python: Path, *arguments: str | Path, **variables: str) -> None:
    """Install with the pip of *python*."""
    pip(python, "install", "--no-index", "--no-deps", "--quiet", *arguments, **variables)
