import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.errors import EnvironmentNotFoundError
from envdoctor.kb.torch_choice import pip_install, pip_uninstall
from envdoctor.model.facts import Environment, PathSource, Unavailable
from envdoctor.probes.environment import find_environment
from envdoctor.probes.import_path import describe_absence
from tests.probes.pythons import (
    PYTHON3_VERSIONS,
    VERSIONS,
    add_user_site,
    ask,
    find_python,
    make_prefix,
    make_venv,
    site_packages_of,
    sys_path_of,
    write_script,
)

SOME_VERSION = "3.8"


@pytest.fixture(autouse=True)
def _no_environment_is_active(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))


def examine(python: Path | str = "", prefix: Path | str = "") -> Environment:
    return find_environment(python=str(python), prefix=str(prefix))


def paths(environment: Environment) -> list[str]:
    return [entry.path for entry in environment.search_path]


def origin_of(environment: Environment, path: Path) -> str:
    return next(entry.origin for entry in environment.search_path if entry.path == str(path))


# --- the search path is that of the interpreter ------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_an_installed_python_searches_pythonpath_library_user_site_and_site_packages(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    user_site = add_user_site(tmp_path / "user", version)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"/missing:{tmp_path}/library:")

    environment = examine(python)

    assert paths(environment) == sys_path_of(python)
    assert paths(environment)[:3] == ["/missing", f"{tmp_path}/library", str(tmp_path)]
    assert paths(environment)[-2:] == [str(user_site), str(site_packages_of(python))]
    assert origin_of(environment, user_site) == "user site"
    assert origin_of(environment, tmp_path) == "PYTHONPATH"
    assert environment.user_site_enabled


@pytest.mark.parametrize("version", VERSIONS)
def test_an_installed_python_is_described_as_it_describes_itself(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)

    environment = examine(python)

    assert environment.interpreter == str(python)
    assert environment.prefix == str(tmp_path / "prefix")
    assert environment.kind == "system"
    assert str(environment.python_version) == ask(python, "sys.version_info[:3]")
    assert environment.implementation == "cpython"
    assert environment.platform == ask(python, "__import__('sysconfig').get_platform()")
    assert ask(python, "__import__('sysconfig').get_config_var('SO')") in (*environment.extension_suffixes, "None")
    assert environment.path_source is PathSource.INTERPRETER


@pytest.mark.parametrize("version", PYTHON3_VERSIONS)
def test_a_venv_searches_its_own_site_packages_alone(version: str, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", version)
    user_site = add_user_site(tmp_path / "user", version)

    environment = examine(python)

    assert paths(environment) == sys_path_of(python)
    assert str(user_site) not in paths(environment)
    assert environment.kind == "venv"
    assert not environment.user_site_enabled
    assert not environment.system_site_packages


@pytest.mark.parametrize("version", PYTHON3_VERSIONS)
def test_a_venv_with_system_site_packages_searches_its_own_before_the_users_and_the_systems(
    version: str, tmp_path: Path
) -> None:
    python = make_venv(tmp_path / "venv", version, "--system-site-packages")
    user_site = add_user_site(tmp_path / "user", version)
    system_site = site_packages_of(find_python(version))

    environment = examine(python)

    assert paths(environment) == sys_path_of(python)
    assert origin_of(environment, site_packages_of(python)) == "site-packages"
    assert origin_of(environment, user_site) == "user site"
    assert origin_of(environment, system_site) == "system site-packages"
    assert environment.user_site_enabled
    assert environment.system_site_packages


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.12"])
def test_pythonnousersite_closes_the_user_site(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    user_site = add_user_site(tmp_path / "user", version)
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")

    environment = examine(python)

    assert paths(environment) == sys_path_of(python)
    assert str(user_site) not in paths(environment)
    assert not environment.user_site_enabled


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.13"])
def test_a_folder_that_comes_twice_keeps_its_first_place(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    site_packages = site_packages_of(python)
    (site_packages / "again.pth").write_text(f"{tmp_path}\n{tmp_path}\n.\n")
    monkeypatch.setenv("PYTHONPATH", f"{site_packages}:{site_packages}")

    environment = examine(python)

    assert paths(environment) == sys_path_of(python)
    assert origin_of(environment, site_packages) == "PYTHONPATH"


@pytest.mark.parametrize("version", ["3.8", "3.11"])
def test_a_conda_environment_searches_the_user_site_before_its_own(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "env", version)
    (tmp_path / "env" / "conda-meta").mkdir()  # by hand: what makes a prefix one of conda's
    user_site = add_user_site(tmp_path / "user", version)

    environment = examine(python)

    assert environment.kind == "conda"
    assert paths(environment)[-2:] == [str(user_site), str(site_packages_of(python))]


def test_the_python_of_debian_searches_dist_packages() -> None:
    python = Path("/usr/bin/python3")
    if not Path("/usr/lib/python3/dist-packages").is_dir():
        pytest.skip("this is not Debian or one of its kind")

    environment = examine(python)

    assert paths(environment) == sys_path_of(python)
    assert origin_of(environment, Path("/usr/lib/python3/dist-packages")) == "dist-packages"


# virtualenv is not among the tools of the tests: the parts of its layouts that Python and its site module look at are
# made by hand here. The expected paths are those that environments of virtualenv 16.7.10 and 20.15.1 print.


@pytest.mark.parametrize("version", ["2.7", "3.6"])
@pytest.mark.parametrize("system_site_packages", [False, True])
def test_a_virtualenv_from_before_virtualenv_20_searches_its_part_of_the_library_and_the_rest(
    version: str, system_site_packages: bool, tmp_path: Path
) -> None:
    base = make_prefix(tmp_path / "base", version).parents[1]
    python = make_prefix(tmp_path / "venv", version)
    library = python.parents[1] / "lib" / f"python{version}"
    (library / "orig-prefix.txt").write_text(str(base))
    if not system_site_packages:
        (library / "no-global-site-packages.txt").touch()
    base_library = base / "lib" / f"python{version}"

    environment = examine(python)

    own = [path for path in paths(environment) if path.startswith(str(library))]
    assert own[-1] == str(library / "site-packages")
    from_base = [path.removeprefix(str(base_library)) for path in paths(environment) if path.startswith(f"{base}/")]
    expected = ["", "/plat-linux2", "/lib-tk"] if version == "2.7" else [""]
    assert from_base == expected + (["/site-packages"] if system_site_packages else [])
    assert environment.kind == "venv"
    assert environment.system_site_packages is system_site_packages


@pytest.mark.parametrize("system_site_packages", [False, True])
def test_a_virtualenv_of_python_2_searches_the_library_of_its_base(system_site_packages: bool, tmp_path: Path) -> None:
    base = make_prefix(tmp_path / "base", "2.7")
    python = make_prefix(tmp_path / "venv", "2.7")
    (tmp_path / "venv" / "pyvenv.cfg").write_text(
        f"home = {tmp_path}/base\nbase-prefix = {tmp_path}/base\nversion_info = 2.7.18.final.0\n"
        f"include-system-site-packages = {str(system_site_packages).lower()}\n"
    )

    environment = examine(python)

    *library, base_site_packages = sys_path_of(base)
    system = [base_site_packages] if system_site_packages else []
    assert paths(environment) == [*library, str(site_packages_of(python)), *system]
    assert environment.system_site_packages is system_site_packages


def test_nothing_of_the_environment_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_prefix(tmp_path / "prefix", SOME_VERSION)
    site_packages = site_packages_of(python)
    betray = "open({!r}, 'w')".format(str(tmp_path / "executed"))
    for module in ("sitecustomize.py", "usercustomize.py"):
        (site_packages / module).write_text(betray)
    (site_packages / "hook.pth").write_text(f"import sys; {betray}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadows"))
    (tmp_path / "shadows").mkdir()
    for module in ("site.py", "os.py", "sysconfig.py", "codecs.py", "abc.py"):
        (tmp_path / "shadows" / module).write_text(betray)

    environment = examine(python)

    assert not (tmp_path / "executed").exists()
    assert environment.path_source is PathSource.INTERPRETER
    assert [note for note in environment.notes if "hook.pth" in note]
    assert [note for note in environment.notes if "sitecustomize.py" in note]


# --- which environment -------------------------------------------------------------------------------------------


def test_the_active_venv_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    conda = make_prefix(tmp_path / "conda", SOME_VERSION)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("CONDA_PREFIX", str(conda.parents[1]))

    environment = examine()

    assert environment.interpreter == str(python)
    assert environment.chosen_because == "VIRTUAL_ENV"


def test_the_active_conda_environment_comes_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_prefix(tmp_path / "conda", SOME_VERSION)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))

    environment = examine()

    assert environment.interpreter == str(python)
    assert environment.chosen_because == "CONDA_PREFIX"


def test_python_on_path_comes_third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    monkeypatch.setenv("PATH", str(python.parent))

    environment = examine()

    assert environment.interpreter == str(python)
    assert environment.chosen_because == "`python` on PATH; neither VIRTUAL_ENV nor CONDA_PREFIX is set"


def test_a_conda_environment_without_python_leaves_the_choice_to_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    (tmp_path / "tools" / "conda-meta").mkdir(parents=True)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "tools"))
    monkeypatch.setenv("PATH", str(python.parent))

    environment = examine()

    assert environment.interpreter == str(python)
    assert "holds no Python" in environment.chosen_because


def test_a_python_on_path_that_does_not_run_is_passed_over_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv_python = make_venv(tmp_path / "venv", SOME_VERSION)
    shims = tmp_path / "shims"
    write_script(shims / "python", "echo 'pyenv: python: command not found' >&2; exit 127")
    (shims / "python3").symlink_to(venv_python)
    monkeypatch.setenv("PATH", str(shims))

    environment = examine()

    assert environment.chosen_because.startswith("`python3` on PATH")
    assert any("status 127: pyenv: python: command not found" in note for note in environment.notes)


def test_envdoctors_own_python_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    environment = examine()

    assert environment.interpreter == sys.executable
    assert environment.chosen_because.startswith("envdoctor's own")


def test_a_shim_is_followed_to_the_interpreter_that_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = find_python(SOME_VERSION)
    monkeypatch.setenv("PATH", str(tmp_path))
    write_script(tmp_path / "python", f'exec {python} "$@"')

    environment = examine()

    assert environment.interpreter == str(python)
    assert environment.prefix == ask(python, "sys.prefix")


def test_another_python_on_path_than_that_of_the_active_venv_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_venv(tmp_path / "venv", SOME_VERSION)
    other = make_prefix(tmp_path / "other", SOME_VERSION)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", str(other.parent))

    environment = examine()

    assert environment.other_python == str(other)


def test_no_other_python_is_told_where_the_active_venv_is_first_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", str(python.parent))

    assert examine().other_python == ""


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.11"])
def test_a_version_is_found_where_pyenv_keeps_it(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_version = ask(find_python(version), "'.'.join(map(str, sys.version_info[:3]))")
    python = make_prefix(tmp_path / "versions" / full_version, version)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    assert examine(version).interpreter == str(python)
    assert examine(full_version).interpreter == str(python)
    assert examine(version).chosen_because == f"--python {version}, found as `{python}`"


def test_a_version_is_found_on_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    (python.parent / f"python{SOME_VERSION}").unlink(missing_ok=True)
    (python.parent / f"python{SOME_VERSION}").symlink_to("python")
    monkeypatch.setenv("PATH", str(python.parent))

    assert examine(SOME_VERSION).prefix == str(tmp_path / "venv")


def test_a_version_is_not_mistaken_for_one_that_starts_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_prefix(tmp_path / "versions" / "3.11.7", "3.11")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EnvironmentNotFoundError, match=f"there is no Python 3.1 on PATH or in `{tmp_path}/versions`"):
        examine("3.1")


def test_a_command_on_path_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    monkeypatch.setenv("PATH", str(python.parent))

    assert examine("python").interpreter == str(python)


@pytest.mark.parametrize("given_as", ["python", "prefix"])
def test_the_folder_of_an_environment_names_it(given_as: str, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)

    environment = find_environment(**{"python": "", "prefix": "", given_as: str(tmp_path / "venv")})

    assert environment.interpreter == str(python)
    assert environment.chosen_because == f"--{given_as}"


def test_a_folder_whose_interpreter_belongs_elsewhere_is_noted(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    (tmp_path / "venv" / "pyvenv.cfg").unlink()

    environment = examine(prefix=tmp_path / "venv")

    assert paths(environment) == sys_path_of(python)
    assert f"`{python}` does not belong to `{tmp_path}/venv`: its prefix is `{environment.prefix}`" in environment.notes


# --- what is not there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_that_was_deleted_is_an_error(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/deleted/env")

    with pytest.raises(EnvironmentNotFoundError, match=f"{variable} names `/deleted/env`, which does not exist"):
        examine()


@pytest.mark.parametrize(
    ("python", "prefix", "complaint"),
    [
        ("/nowhere/bin/python", "", "--python names `/nowhere/bin/python`, which does not exist"),
        ("no-such-python", "", "--python names `no-such-python`, which does not exist"),
        ("~nobody-of-that-name/python", "", "--python names `~nobody-of-that-name/python`, which does not exist"),
        ("", "/nowhere", "--prefix names `/nowhere`, which does not exist"),
        ("", "/dev/null", "--prefix names `/dev/null`, which is not a folder"),
        ("2.99", "", "there is no Python 2.99 on PATH or in"),
        ("3.8", "/usr", "--python and --prefix may name two environments: give one of them"),
    ],
)
def test_what_does_not_exist_is_named_in_the_error(python: str, prefix: str, complaint: str) -> None:
    with pytest.raises(EnvironmentNotFoundError, match=complaint):
        examine(python, prefix)


def test_a_folder_that_is_no_environment_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotFoundError, match="holds no bin/python"):
        examine(prefix=tmp_path)


@pytest.mark.parametrize("program", ["echo hello", "exit 3", "kill -9 $$", "echo 'envdoctor-answer: {]'"])
def test_a_program_that_is_no_python_is_an_error(program: str, tmp_path: Path) -> None:
    script = write_script(tmp_path / "bin" / "python", program)

    with pytest.raises(EnvironmentNotFoundError, match=str(script)):
        examine(script)


def test_another_program_is_not_taken_for_the_python_beside_it() -> None:
    with pytest.raises(EnvironmentNotFoundError, match="ls` does not answer as a Python does"):
        examine("ls")


# --- an interpreter that does not run ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", PYTHON3_VERSIONS)
@pytest.mark.parametrize("options", [(), ("--system-site-packages",)])
def test_a_venv_whose_python_cannot_run_is_read_from_its_files(
    version: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    python = make_venv(tmp_path / "venv", version, *options)
    add_user_site(tmp_path / "user", version)
    expected = examine(python)
    shutil.copy(python, tmp_path / "copy")
    python.unlink()
    shutil.move(tmp_path / "copy", python)
    python.chmod(0o644)

    environment = examine(python)

    assert environment.path_source is PathSource.FILES
    assert any("Permission denied" in note for note in environment.notes)
    assert (environment.kind, environment.prefix) == (expected.kind, expected.prefix)
    assert environment.python_version == expected.python_version
    assert environment.extension_suffixes == expected.extension_suffixes
    assert environment.search_path == expected.search_path


def test_a_venv_whose_base_is_gone_is_read_from_its_files(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    for link in python.parent.glob("python*"):
        link.unlink()
    python.symlink_to(f"/gone/bin/python{SOME_VERSION}")
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = /gone/bin\nversion = {SOME_VERSION}.20\n")

    environment = examine(prefix=tmp_path / "venv")

    assert environment.path_source is PathSource.FILES
    assert environment.interpreter == str(python)
    assert environment.python_version == (3, 8, 20)
    assert any("No such file or directory" in note for note in environment.notes)
    assert paths(environment)[-1] == str(site_packages_of(python))


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.13"])
def test_a_prefix_whose_python_is_for_another_processor_is_read_from_its_files(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    expected = examine(python)
    with (python.parent / f"python{version}").open("r+b") as program:
        program.seek(18)  # e_machine of the ELF header
        program.write(b"\xff\xff")

    environment = examine(python)

    assert environment.path_source is PathSource.FILES
    assert any("Exec format error" in note for note in environment.notes)
    assert environment.extension_suffixes == expected.extension_suffixes
    assert set(environment.search_path) <= set(expected.search_path)
    assert environment.search_path[-1] == expected.search_path[-1]


def test_a_python_that_pythonhome_breaks_is_read_from_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_prefix(tmp_path / "prefix", SOME_VERSION)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")

    environment = examine(python)

    assert environment.path_source is PathSource.FILES
    assert any(note.startswith("PYTHONHOME is set") for note in environment.notes)


def test_a_prefix_without_interpreter_is_read_from_its_files(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    shutil.rmtree(python.parent)

    environment = examine(prefix=tmp_path / "venv")

    assert isinstance(environment.interpreter, Unavailable)
    assert paths(environment)[-1] == str(site_packages_of(python))
    assert environment.path_source is PathSource.FILES


def test_a_current_folder_that_was_deleted_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    monkeypatch.setenv("PYTHONPATH", "relative:")

    environment = examine(python)

    assert paths(environment)[-1] == str(site_packages_of(python))
    with pytest.raises(EnvironmentNotFoundError, match="--prefix names `relative`, which does not exist"):
        examine(prefix="relative")


# --- a bare folder -----------------------------------------------------------------------------------------------


def test_a_bare_site_packages_folder_is_examined_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "python3.7" / "site-packages"
    (folder / "torch-1.10.2.dist-info").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    environment = examine(prefix=folder)

    assert environment.kind == "bare site-packages"
    assert isinstance(environment.interpreter, Unavailable)
    assert environment.python_version == (3, 7)
    assert paths(environment) == [str(folder)]


def test_a_target_folder_of_pip_does_not_tell_its_python(tmp_path: Path) -> None:
    (tmp_path / "torch-1.10.2.dist-info").mkdir()

    environment = examine(prefix=tmp_path)

    assert environment.kind == "bare site-packages"
    assert isinstance(environment.python_version, Unavailable)


# --- notes -------------------------------------------------------------------------------------------------------


def make_managed(folder: Path) -> Path:
    """Make a Python as Debian 12, Ubuntu 24.04 and uv bring it, which pip does not change unasked (PEP 668)."""
    python = make_prefix(folder, "3.11")
    (folder / "lib" / "python3.11" / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    return python


def test_a_python_of_the_system_is_changed_with_consent_as_pip_demands(tmp_path: Path) -> None:
    python = make_managed(tmp_path / "prefix")
    [pip] = Path(ask(python, "__import__('ensurepip').__path__[0]")).glob("_bundled/pip-*.whl")

    environment = examine(python)
    [command] = pip_uninstall(environment, "torch")
    as_it_is, unasked = (
        subprocess.run(
            shlex.split(words), env={"PYTHONPATH": str(pip)}, capture_output=True, text=True, timeout=60, check=False
        )
        for words in (command, command.replace(" --break-system-packages", ""))
    )

    assert "Skipping torch as it is not installed" in as_it_is.stderr
    assert "externally-managed-environment" in unasked.stderr
    assert " -m pip install --break-system-packages" in pip_install(environment)
    assert "--break-system-packages only (PEP 668)" in environment.notes[-1]


def test_a_venv_of_a_python_of_the_system_is_not_managed(tmp_path: Path) -> None:
    python = make_managed(tmp_path / "prefix")
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)

    environment = examine(tmp_path / "venv" / "bin" / "python")

    assert not environment.externally_managed
    assert environment.notes == ()


def test_a_healthy_venv_has_no_notes(tmp_path: Path) -> None:
    assert examine(make_venv(tmp_path / "venv", SOME_VERSION)).notes == ()


def test_a_missing_folder_of_pythonpath_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")

    assert examine(python).notes == ("PYTHONPATH names `/nowhere`, which does not exist",)


def test_a_folder_that_is_closed_to_this_user_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_venv(tmp_path / "venv", SOME_VERSION)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    if _can_list(closed):
        pytest.skip("this user may list every folder")
    monkeypatch.setenv("PYTHONPATH", str(closed))

    assert examine(python).notes == (f"`{closed}` cannot be read by this user",)


def test_packages_behind_a_folder_that_is_closed_to_this_user_may_be_there(unprivileged: Path) -> None:
    library = unprivileged / "venv" / "lib"
    (library / "python3.8" / "site-packages" / "torch").mkdir(parents=True)
    library.chmod(0)
    answer = {
        "executable": [str(unprivileged / "venv/bin/python")],
        "prefix": [str(unprivileged / "venv")],
        "base_prefix": ["/usr"],
        "version": ["3.8.18"],
        "implementation": ["cpython"],
        "platform": ["linux-x86_64"],
        "extension_suffixes": [".so"],
        "standard_library": ["/usr/lib/python3.8"],
        "site_folders": [],  # the interpreter cannot enter them either
        "user_site": ["/home/user/site"],
        "user_site_enabled": [],
    }
    python = write_script(unprivileged / "venv/bin/python", f"echo 'envdoctor-answer: {json.dumps(answer)}'")

    environment = examine(python)

    closed = f"{library}/python3.8/site-packages"
    assert f"`{closed}` cannot be read by this user" in environment.notes
    assert describe_absence(environment, "torch") == Unavailable(
        f"torch may be in `{closed}`, which this user cannot read"
    )


def _can_list(folder: Path) -> bool:
    try:
        list(folder.iterdir())
    except PermissionError:
        return False
    return True
