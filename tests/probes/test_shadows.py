"""What is hidden, each time compared with what the real interpreter imports."""

import subprocess
from pathlib import Path

import pytest

from envdoctor.model.facts import Environment
from envdoctor.model.installation import ShadowedModule
from envdoctor.probes.environment import find_environment
from envdoctor.probes.shadows import find_shadowed_modules
from tests.builders import variables
from tests.probes.pythons import PYTHON3_VERSIONS, make_venv, site_packages_of


@pytest.fixture(autouse=True)
def start_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are started in a folder that has something to hide."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("PYTHONPATH", raising=False)


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def imported_from(python: Path, module: str) -> str:
    """Let the interpreter, started in the current folder, say where a module comes from."""
    program = f"import {module}; print({module}.__file__)"
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def examine(python: Path) -> Environment:
    return find_environment(python=str(python), prefix="")


def find(python: Path) -> dict[str, ShadowedModule]:
    return {each.name: each for each in find_shadowed_modules(examine(python), ())}


@pytest.mark.parametrize("version", PYTHON3_VERSIONS)
def test_a_healthy_environment_hides_nothing(version: str, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", version)
    for package in ("zope/interface", "nvidia/cublas", "attr"):
        write(site_packages_of(python) / package / "__init__.py")

    assert find(python) == {}


@pytest.mark.parametrize("version", PYTHON3_VERSIONS)
def test_a_module_of_pythonpath_hides_one_of_the_standard_library(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", version)
    taken = write(tmp_path / "utils" / "fractions.py", "Fraction = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "utils"))
    [shadowed] = find(python).values()

    assert shadowed.taken == imported_from(python, "fractions") == str(taken)
    assert shadowed.hidden.endswith(f"lib/python{version}/fractions.py")
    assert (shadowed.origin, shadowed.hidden_origin, shadowed.lacking) == ("PYTHONPATH", "standard library", "")


@pytest.mark.parametrize("version", ["3.6", "3.10", "3.11", "3.13"])
@pytest.mark.parametrize("module", ["stat", "io", "codecs"])
def test_frozen_modules_cannot_be_hidden(
    module: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", version)
    library = Path(imported_from(python, "fractions")).parent
    write(tmp_path / "utils" / f"{module}.py", (library / f"{module}.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "utils"))
    is_hidden = module in find(python)

    assert is_hidden == imported_from(python, module).startswith(str(tmp_path / "utils"))


@pytest.mark.parametrize("name", ["random", "types", "keyword", "operator", "functools", "collections"])
@pytest.mark.parametrize("version", ["3.6", "3.8", "3.13"])
def test_what_the_standard_library_asks_for_in_vain_stops_programs(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", version)
    write(tmp_path / "utils" / f"{name}.py", "import os\n\n\ndef seed_all(seed):\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "utils"))
    shadowed = find(python)[name]
    ended = subprocess.run([python, "-c", "import tempfile, contextlib"], capture_output=True, text=True, check=False)

    assert shadowed.lacking != ""
    assert ended.returncode != 0


@pytest.mark.parametrize(
    "text", ["class Random:\n    pass\n", "from base import *\n", "globals().update(x)\n", "def Random(): ...\n"]
)
def test_a_module_that_may_have_the_name_proves_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    write(tmp_path / "utils" / "random.py", text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "utils"))

    assert find(python)["random"].lacking == ""


def test_a_package_of_pythonpath_hides_one_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    write(site_packages_of(python) / "cv2" / "__init__.py")
    taken = write(tmp_path / "ros" / "cv2.py")
    write(tmp_path / "ros" / "rospy" / "__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "ros"))
    [shadowed] = find(python).values()

    assert shadowed.taken == imported_from(python, "cv2") == str(taken)
    assert shadowed.hidden == str(site_packages_of(python) / "cv2")
    assert shadowed.hidden_origin == "site-packages"


def test_a_folder_that_is_no_package_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    installed = write(site_packages_of(python) / "datasets" / "__init__.py")
    write(tmp_path / "work" / "datasets" / "list.txt")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "work"))

    assert imported_from(python, "datasets") == str(installed)
    assert find(python) == {}


def test_the_environment_itself_on_pythonpath_hides_none_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    write(site_packages_of(python) / "numpy" / "__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "venv" / "lib64" / "python3.10" / "site-packages"))

    assert find(python) == {}


def test_the_current_folder_hides_a_package_and_its_compiled_part_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    write(site_packages_of(python) / "mmcv" / "__init__.py")
    write(site_packages_of(python) / "mmcv" / "_ext.cpython-310-x86_64-linux-gnu.so")
    taken = write(tmp_path / "mmcv" / "mmcv" / "__init__.py")
    monkeypatch.chdir(tmp_path / "mmcv")
    [shadowed] = find(python).values()

    assert imported_from(python, "mmcv") == str(taken)
    assert shadowed.taken == str(taken.parent)
    assert (shadowed.origin, shadowed.lost) == ("current folder", ("mmcv._ext",))


def test_the_current_folder_is_too_late_for_what_every_start_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.8")
    write(tmp_path / "work" / "codecs.py")
    write(tmp_path / "work" / "random.py", "x = 1\n")
    monkeypatch.chdir(tmp_path / "work")

    assert find(python).keys() == {"random"}
    assert not imported_from(python, "codecs").startswith(str(tmp_path / "work"))
    assert imported_from(python, "random") == str(tmp_path / "work" / "random.py")


def test_a_checkout_that_is_installed_editable_is_no_namesake_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    write(tmp_path / "repo" / "mmdet" / "__init__.py")
    write(site_packages_of(python) / "mmdet.pth", str(tmp_path / "repo"))
    monkeypatch.chdir(tmp_path / "repo")

    assert find(python) == {}


def test_another_checkout_hides_the_one_that_is_installed_editable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    for checkout in ("old", "new"):
        write(tmp_path / checkout / "mmdet" / "__init__.py")
    write(site_packages_of(python) / "mmdet.pth", str(tmp_path / "old"))
    monkeypatch.chdir(tmp_path / "new")

    assert find(python)["mmdet"].hidden == str(tmp_path / "old" / "mmdet")
    assert imported_from(python, "mmdet") == str(tmp_path / "new" / "mmdet" / "__init__.py")


def test_a_mere_folder_hides_what_an_import_hook_would_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://github.com/insarlab/MintPy/issues/882"""
    python = make_venv(tmp_path / "venv", "3.10")
    write(tmp_path / "repo" / "src" / "mintpy" / "__init__.py")
    finder = f"MAPPING: dict[str, str] = {{'mintpy': '{tmp_path}/repo/src/mintpy'}}\n"
    write(site_packages_of(python) / "__editable___mintpy_finder.py", finder + "def install(): pass\n")
    write(
        site_packages_of(python) / "__editable__.mintpy.pth",
        "import __editable___mintpy_finder; __editable___mintpy_finder.install()",
    )
    write(tmp_path / "data" / "mintpy" / "velocity.h5")
    monkeypatch.chdir(tmp_path / "data")
    [shadowed] = find(python).values()

    assert (shadowed.taken, shadowed.hidden_origin) == (str(tmp_path / "data" / "mintpy"), "editable mintpy")


def test_pythonsafepath_leaves_the_current_folder_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", "3.11")
    write(tmp_path / "work" / "random.py")
    monkeypatch.chdir(tmp_path / "work")

    assert find_shadowed_modules(examine(python), variables(PYTHONSAFEPATH="1")) == ()


@pytest.mark.parametrize("name", ["setup.py", "conftest.py", "tests/__init__.py", "tools/__init__.py", "test.py"])
def test_what_lies_in_every_repository_is_no_finding(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    write(site_packages_of(python) / name)
    write(tmp_path / "repo" / name)
    monkeypatch.chdir(tmp_path / "repo")

    assert find(python) == {}


def test_a_current_folder_that_was_deleted_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", "3.10")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert find(python) == {}
