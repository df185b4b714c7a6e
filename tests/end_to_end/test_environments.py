"""Which environment this is: on real venvs of real Pythons that a real pip filled, next to what Python imports."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.probes.pythons import add_user_site, ask, find_python, make_prefix, make_venv, site_packages_of
from tests.wheels import install, make_wheel

# What a job would bring, and what the machine of the test may have set.
_OF_THE_JOB = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE")

INTERRUPTED_PIP = """
import os, sys
import pip._internal.utils.temp_dir
pip._internal.utils.temp_dir.rmtree = lambda *arguments, **options: os._exit(9)
from pip._internal.cli.main import main
main(["uninstall", "--yes", "einops"])
"""


@dataclass(frozen=True)
class Answer:
    """What the process said."""

    exit_code: int
    report: dict[str, Any]

    @property
    def codes(self) -> list[str]:
        return [found["code"] for found in self.report["findings"]]

    def finding(self, code: str) -> dict[str, Any]:
        [found] = [found for found in self.report["findings"] if found["code"] == code]
        return dict(found)


def check(python: Path, folder: Path, **variables: str) -> Answer:
    """Examine an environment from a folder, by the rules about which environment it is."""
    clean = {name: value for name, value in os.environ.items() if name not in _OF_THE_JOB}
    # -I: what is wrong with the environment of the job must not keep envdoctor's own Python from starting.
    command = [sys.executable, "-I", "-m", "envdoctor", "check", "--format", "json", "--select", "ED0"]
    done = subprocess.run(
        [*command, "--python", str(python)],
        env=clean | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return Answer(done.returncode, json.loads(done.stdout))


def fill(python: Path, folder: Path, name: str, version: str, *modules: str) -> None:
    """Let pip install a wheel into the environment of *python*."""
    wheel = make_wheel(folder, name, version, *modules)
    version_of_python = python.resolve().name.removeprefix("python")
    install(find_python(version_of_python), "--ignore-installed", "--prefix", python.parents[1], wheel)


def fill_user_site(version: str, base: Path, wheel: Path) -> None:
    """Let pip install a wheel with `--user`."""
    install(find_python(version), "--user", "--ignore-installed", wheel, PYTHONUSERBASE=str(base))


def make_conda(prefix: Path, version: str) -> Path:
    """Make a prefix of conda's layout; there is no conda here."""
    python = make_prefix(prefix, version)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").touch()
    return python


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """An empty folder to start in."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    return folder


# --- healthy environments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.6", "3.11", "3.13"])
def test_nothing_is_said_against_a_plain_venv(version: str, tmp_path: Path, nowhere: Path) -> None:
    python = make_venv(tmp_path / "venv", version)
    fill(python, tmp_path, "einops", "0.6", "einops/__init__.py", "einops/layers/__init__.py")
    fill(python, tmp_path, "nvidia_cublas", "12.4", "nvidia/cublas/lib/kernel.py")
    fill(python, tmp_path, "zope_interface", "6.0", "zope/interface/__init__.py")

    assert check(python, nowhere).codes == []


def test_nothing_is_said_against_a_venv_that_sees_the_system(tmp_path: Path, nowhere: Path) -> None:
    python = make_venv(tmp_path / "venv", "3.11", "--system-site-packages")
    fill(python, tmp_path, "einops", "0.7", "einops/__init__.py")
    fill_user_site("3.11", tmp_path / "user", make_wheel(tmp_path, "einops", "0.6", "einops/__init__.py"))
    answer = check(python, nowhere, PYTHONUSERBASE=str(tmp_path / "user"))

    assert answer.report["environment"]["kind"] == "venv"
    assert answer.codes == []


def test_nothing_is_said_against_a_user_site_that_hides_nothing(tmp_path: Path, nowhere: Path) -> None:
    python = make_conda(tmp_path / "env", "3.12")
    fill(python, tmp_path, "einops", "0.7", "einops/__init__.py")
    fill_user_site("3.12", tmp_path / "user", make_wheel(tmp_path, "awscli", "1.0", "awscli/__init__.py"))

    assert check(python, nowhere, PYTHONUSERBASE=str(tmp_path / "user")).codes == []


def test_nothing_is_said_against_metadata_that_do_not_match_their_list(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/97153: as a wheel of torch 1.11.0 has them."""
    python = make_venv(tmp_path / "venv", "3.8")
    fill(python, tmp_path, "torch", "1.11.0", "torch/__init__.py", "torch/version.py")
    (metadata,) = site_packages_of(python).glob("torch-*.dist-info/METADATA")
    (record,) = site_packages_of(python).glob("torch-*.dist-info/RECORD")
    record.write_text(
        record.read_text().replace("METADATA,", "METADATA,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")
    )
    metadata.write_text(metadata.read_text() + "Home-page: https://pytorch.org/\n")

    assert "ED015" not in check(python, nowhere).codes


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv into which a real pip installed a project as an editable one; its source is `project` beside it."""
    folder = tmp_path_factory.mktemp("editable")
    python = make_venv(folder / "venv", "{}.{}".format(*sys.version_info))
    (folder / "project" / "src" / "mmdet").mkdir(parents=True)
    (folder / "project" / "src" / "mmdet" / "__init__.py").touch()
    (folder / "project" / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'mmdet'\nversion = '2.25'\n"
    )
    tools = sysconfig.get_path("purelib")  # pip and setuptools of the tests' own environment
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run(
        [python, "-m", "pip", "install", *options, f"--editable={folder / 'project'}"],
        check=True,
        env={**os.environ, "PYTHONPATH": tools, "PIP_CONFIG_FILE": os.devnull},
    )
    return python


def test_nothing_is_said_against_an_editable_installation(editable: Path) -> None:
    """The job is started in the checkout, too."""
    assert check(editable, editable.parents[2] / "project" / "src").codes == []


# --- what wins ---------------------------------------------------------------------------------------------------


def test_the_user_site_wins_over_conda_and_loses_against_a_venv(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/spinalcordtoolbox/spinalcordtoolbox/issues/3067"""
    conda, venv = make_conda(tmp_path / "env", "3.6"), make_venv(tmp_path / "venv", "3.6")
    for python in (conda, venv):
        fill(python, tmp_path, "h5py", "2.10.0", "h5py/__init__.py")
    fill_user_site("3.6", tmp_path / "user", make_wheel(tmp_path, "h5py", "3.1.0", "h5py/__init__.py"))
    user = {"PYTHONUSERBASE": str(tmp_path / "user")}
    finding = check(conda, nowhere, **user).finding("ED003")

    assert finding["message"] == "the user site puts h5py 3.1.0 before the environment's own"
    assert check(venv, nowhere, **user).codes == []
    assert check(conda, nowhere, **user, PYTHONNOUSERSITE="1").codes == []


def test_what_is_said_to_win_is_what_python_imports(
    tmp_path: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_conda(tmp_path / "env", "3.9")
    fill(python, tmp_path, "h5py", "2.10.0", "h5py/__init__.py")
    fill_user_site("3.9", tmp_path / "user", make_wheel(tmp_path, "h5py", "3.1.0", "h5py/__init__.py"))
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    finding = check(python, nowhere, PYTHONUSERBASE=str(tmp_path / "user")).finding("ED003")
    imported = Path(ask(python, "__import__('h5py').__file__"))

    assert finding["evidence"][0]["source"] == str(imported.parents[1])


def test_a_torch_of_the_user_site_is_not_the_environments(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/PKU-YuanGroup/Open-Sora-Plan/issues/39"""
    python = make_conda(tmp_path / "env", "3.10")
    user = add_user_site(tmp_path / "user", "3.10")
    (user / "torch").mkdir()
    (user / "torch" / "__init__.py").touch()
    (user / "torch" / "version.py").write_text("__version__ = '1.13.1+cu117'\ncuda = '11.7'\n")
    answer = check(python, nowhere, PYTHONUSERBASE=str(tmp_path / "user"))

    assert "ED005" in answer.codes


def test_pythonpath_wins_over_a_venv(tmp_path: Path, nowhere: Path) -> None:
    python = make_venv(tmp_path / "venv", "3.11")
    fill(python, tmp_path, "einops", "0.7", "einops/__init__.py")
    install(find_python("3.11"), "--target", tmp_path / "shared", make_wheel(tmp_path, "einops", "0.6", "einops.py"))
    answer = check(python, nowhere, PYTHONPATH=f"{tmp_path}/shared:{tmp_path}/other")

    assert answer.codes == ["ED004"]
    assert answer.finding("ED004")["remedy"]["commands"] == [f"export PYTHONPATH={tmp_path}/other"]


def test_torch_itself_on_pythonpath_breaks_the_standard_library(nowhere: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/19943"""
    torch = Path(sysconfig.get_path("purelib"), "torch")
    if not torch.is_dir():
        pytest.skip("torch is not installed here")
    program = [sys.executable, "-c", "import torch"]
    ended = subprocess.run(
        program, env={**os.environ, "PYTHONPATH": str(torch)}, capture_output=True, text=True, check=False
    )
    answer = check(Path(sys.executable), nowhere, PYTHONPATH=str(torch))

    assert "ImportError: cannot import name" in ended.stderr
    assert "ED008" in answer.codes
    assert answer.exit_code == 1


def test_a_checkout_hides_the_installed_package_and_lacks_its_compiled_part(tmp_path: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/4622"""
    python = make_venv(tmp_path / "venv", "3.11")
    fill(python, tmp_path, "mmcv_full", "1.7", "mmcv/__init__.py", "mmcv/_ext.cpython-311-x86_64-linux-gnu.so")
    (tmp_path / "checkout" / "mmcv").mkdir(parents=True)
    (tmp_path / "checkout" / "mmcv" / "__init__.py").touch()

    assert check(python, tmp_path / "checkout").codes == ["ED010"]


# --- what is not whole -------------------------------------------------------------------------------------------


def test_an_interrupted_uninstallation_leaves_what_was_set_aside(tmp_path: Path, nowhere: Path) -> None:
    python = make_venv(tmp_path / "venv", "{}.{}".format(*sys.version_info))
    fill(python, tmp_path, "einops", "0.6", "einops/__init__.py", "einops/layers.py")
    tools = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib"), "PIP_CONFIG_FILE": os.devnull}
    interrupted = subprocess.run([python, "-c", INTERRUPTED_PIP], env=tools, check=False, capture_output=True)
    answer = check(python, nowhere)

    assert interrupted.returncode == 9
    assert answer.codes == ["ED014"]
    assert "~inops" in {evidence["source"] for evidence in answer.finding("ED014")["evidence"]}


def test_whoever_is_uninstalled_takes_the_files_of_its_twin_along(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/NVIDIA/flashdreams/issues/363"""
    python = make_venv(tmp_path / "venv", "{}.{}".format(*sys.version_info))
    for name in ("opencv_python", "opencv_python_headless"):
        fill(python, tmp_path, name, "4.11", "cv2/__init__.py", "cv2/gapi.py")
    tools = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib"), "PIP_CONFIG_FILE": os.devnull}
    uninstall = ("-m", "pip", "uninstall", "--yes", "--quiet", "opencv-python")
    subprocess.run([python, *uninstall], env=tools, check=True)
    answer = check(python, nowhere)

    assert answer.codes == ["ED015"]
    assert answer.finding("ED015")["message"].startswith("2 of 2 modules and libraries of `opencv-python-headless`")


def test_what_is_installed_over_another_version_has_the_metadata_of_both(tmp_path: Path, nowhere: Path) -> None:
    """The older one is emptied as in https://github.com/python/cpython/issues/100666."""
    python = make_venv(tmp_path / "venv", "3.10")
    for version in ("0.6", "0.7"):
        fill(python, tmp_path, "einops", version, "einops/__init__.py")
    doubled = check(python, nowhere).finding("ED012")
    old = site_packages_of(python) / "einops-0.6.dist-info"
    for file in old.iterdir():
        file.unlink()
    (old / "REQUESTED").touch()
    emptied = check(python, nowhere).finding("ED012")

    assert len(doubled["remedy"]["commands"]) == 3
    assert emptied["remedy"]["commands"] == [f"rm -r {old}"]


def test_a_torch_without_init_is_an_error(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/29305"""
    python = make_venv(tmp_path / "venv", "3.11")
    torch = site_packages_of(python) / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "version.py").write_text("__version__ = '2.1.0+cpu'\ncuda = None\n")
    answer = check(python, nowhere)

    assert ask(python, "hasattr(__import__('torch'), 'nn')") == "False"
    assert "ED002" in answer.codes
    assert answer.exit_code == 1


# --- what leads nowhere ------------------------------------------------------------------------------------------


def test_an_editable_installation_is_lost_with_its_source(editable: Path, nowhere: Path) -> None:
    """https://github.com/pypa/pip/issues/11448"""
    source = editable.parents[2] / "project"
    aside = source.with_name("aside")
    shutil.move(source, aside)
    answer = check(editable, nowhere)
    shutil.move(aside, source)

    assert answer.codes == ["ED017"]


def test_a_moved_venv_has_scripts_that_start_nothing(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/agessaman/meshcore-bot/issues/229"""
    python = make_venv(tmp_path / "old", "3.11")
    subprocess.run([python, "-m", "ensurepip"], check=True, capture_output=True)
    (tmp_path / "old").rename(tmp_path / "new")

    assert check(tmp_path / "new" / "bin" / "python", nowhere).codes == ["ED018"]


def test_a_venv_whose_python_was_removed_does_not_start(tmp_path: Path, nowhere: Path) -> None:
    """https://github.com/python-poetry/poetry/issues/9389"""
    python = make_venv(tmp_path / "venv", "3.11")
    for link in (tmp_path / "venv" / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/opt/removed/bin/python3.11")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /opt/removed/bin\nversion = 3.11.2\n")

    assert check(python, nowhere).codes == ["ED019"]
