import shutil
import subprocess
from pathlib import Path

import pytest

from envdoctor.model.installation import Launcher
from envdoctor.probes.environment import find_environment
from envdoctor.probes.launchers import find_launchers
from tests.builders import an_environment
from tests.probes.pythons import make_venv, write_script
from tests.wheels import install


def find(prefix: Path) -> tuple[Launcher, ...]:
    return find_launchers(find_environment(python="", prefix=str(prefix)))


@pytest.fixture(scope="module")
def torchrun_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a script called torchrun, packed by hand: an entry point of a module."""
    folder = tmp_path_factory.mktemp("source")
    dist_info = folder / "launch-1.dist-info"
    dist_info.mkdir()
    (folder / "launch.py").write_text("import sys\ndef main():\n    print(sys.prefix)\n")
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: launch\nVersion: 1\n")
    (dist_info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (dist_info / "entry_points.txt").write_text("[console_scripts]\ntorchrun = launch:main\n")
    (dist_info / "RECORD").write_text("launch.py,,\nlaunch-1.dist-info/RECORD,,\n")
    return Path(
        shutil.move(shutil.make_archive(str(folder / "launch"), "zip", folder), folder / "launch-1-py3-none-any.whl")
    )


@pytest.mark.parametrize(
    ("version", "length"), [("3.6", 0), ("3.11", 120), ("3.13", 0)], ids=["old", "too long for the first line", "new"]
)
def test_the_scripts_of_a_moved_venv_start_the_interpreter_of_its_old_place(
    version: str, length: int, torchrun_wheel: Path, tmp_path: Path
) -> None:
    old, new = tmp_path / ("old" + "x" * length) / "env", tmp_path / "new"
    python = make_venv(old, version)
    subprocess.run([python, "-m", "ensurepip"], check=True, capture_output=True)
    install(python, torchrun_wheel)

    before = find(old)
    old.rename(new)
    moved = {Path(launcher.script).name: launcher for launcher in find(new)}

    assert before == ()
    assert moved.keys() == {"torchrun", "pip3"}
    assert moved["torchrun"].script == str(new / "bin" / "torchrun")
    assert Path(moved["torchrun"].interpreter).parent == old / "bin"
    assert not moved["torchrun"].exists


@pytest.mark.parametrize(
    "first_line",
    ["#!/usr/bin/env python", "#!/bin/sh", "#!/usr/bin/env -S python3 -u", "\x7fELF", "", "#!/opt/tool/bin/run"],
)
def test_a_script_that_names_no_interpreter_leads_nowhere(first_line: str, tmp_path: Path) -> None:
    make_venv(tmp_path / "venv", "3.10")
    (tmp_path / "venv" / "bin" / "pip").write_text(f"{first_line}\nimport pip\n")

    assert find(tmp_path / "venv") == ()


def test_a_folder_that_is_reached_by_two_names_is_one(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv", "3.10")
    (tmp_path / "alias").symlink_to("venv")
    (tmp_path / "venv" / "bin" / "pip").write_text(f"#!{tmp_path}/alias/bin/python3.10\n")

    assert find(tmp_path / "venv") == ()


def test_torchrun_of_elsewhere_is_what_an_active_venv_without_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://github.com/pytorch/pytorch/issues/92132: torch was loaded by a module of the cluster."""
    make_venv(tmp_path / "venv", "3.10")
    script = write_script(tmp_path / "module" / "bin" / "torchrun", "")
    script.write_text("#!/usr/bin/python3\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", f"{tmp_path}/venv/bin:{tmp_path}/module/bin:/usr/bin:/bin")
    [launcher] = find_launchers(find_environment(python="", prefix=""))

    assert (launcher.script, launcher.interpreter) == (str(script), "/usr/bin/python3")
    assert find(tmp_path / "venv") == ()  # it is not said to be active


def test_the_scripts_of_a_system_are_its_own_business() -> None:
    assert find_launchers(an_environment(kind="system", prefix="/usr")) == ()
