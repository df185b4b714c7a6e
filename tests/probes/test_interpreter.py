import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envdoctor.errors import ProbeError
from envdoctor.probes import interpreter as probe
from envdoctor.probes.interpreter import ask_interpreter, guess_interpreter
from tests.probes.processes import ends
from tests.probes.pythons import VERSIONS, find_python, make_prefix, make_venv, site_packages_of, write_script

SOME_VERSION = "3.8"
CHILD = Path(probe.__file__).with_name("interpreter_child.py")


@pytest.fixture(autouse=True)
def _plain_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_answers(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)

    answer = ask_interpreter(python)

    assert answer.executable == str(python)
    assert answer.prefix == answer.base_prefix == str(tmp_path / "prefix")
    assert answer.site_folders == (str(site_packages_of(python)),)
    assert answer.user_site == str(tmp_path / "user" / "lib" / f"python{version}" / "site-packages")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_guessed_from_files_is_what_the_python_answers(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    answer = ask_interpreter(python)

    guess = guess_interpreter(tmp_path / "prefix", python)

    assert guess.version == answer.version[:2]
    assert set(guess.standard_library) <= set(answer.standard_library)
    assert guess.extension_suffixes == answer.extension_suffixes
    assert (guess.executable, guess.prefix, guess.base_prefix) == (answer.executable, answer.prefix, answer.base_prefix)
    assert (guess.implementation, guess.platform) == (answer.implementation, answer.platform)
    assert (guess.site_folders, guess.user_site) == (answer.site_folders, answer.user_site)


def test_a_site_module_without_its_usual_functions_is_made_up_for(tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", SOME_VERSION)
    expected = ask_interpreter(python)
    site = tmp_path / "prefix" / "lib" / f"python{SOME_VERSION}" / "site.py"
    text = site.read_text().replace("def removeduppaths", "def removed_duplicate_paths")
    site.unlink()
    site.write_text(text)

    assert ask_interpreter(python) == expected


def test_the_lines_that_a_wrapper_prints_do_not_matter(tmp_path: Path) -> None:
    python = find_python(SOME_VERSION)
    wrapper = write_script(tmp_path / "python", f'echo "loading modules"; printf "no newline"; {python} "$@"; echo bye')

    assert ask_interpreter(wrapper) == ask_interpreter(python)


def test_a_wrapper_may_leave_something_running(tmp_path: Path) -> None:
    python = find_python(SOME_VERSION)
    wrapper = write_script(tmp_path / "python", f'sleep 1000 & {python} "$@"')

    assert ask_interpreter(wrapper) == ask_interpreter(python)


def test_a_path_that_no_file_can_have_is_none(tmp_path: Path) -> None:
    python = find_python(SOME_VERSION)
    forger = write_script(tmp_path / "python", f"{python} \"$@\" | sed 's,/lib/,/\\\\u0000/,g'")

    assert all("?" in path and "\0" not in path for path in ask_interpreter(forger).standard_library)


def test_the_current_folder_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("site.py", "os.py", "sysconfig.py", "importlib.py"):
        (tmp_path / module).write_text("raise SystemExit('executed')")
    monkeypatch.chdir(tmp_path)

    assert ask_interpreter(find_python(SOME_VERSION)).site_folders


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.13"])
@pytest.mark.parametrize("name", ["with blank", "café", "quo'te\"d", "back\\slash", "\N{SNAKE}"])
def test_any_path_survives_the_way_back(name: str, version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / name, version)

    assert ask_interpreter(python).prefix == str(tmp_path / name)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_path_that_is_not_utf_8_survives_the_way_back(
    locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    python = make_prefix(Path(os.fsdecode(folder)), "3.11")

    assert os.fsencode(ask_interpreter(python).prefix) == folder


def test_nothing_is_written_beside_the_library(tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", SOME_VERSION)
    library = tmp_path / "prefix" / "lib" / f"python{SOME_VERSION}"
    (library / "__pycache__").unlink(missing_ok=True)

    ask_interpreter(python)

    assert not (library / "__pycache__").exists()


# --- what does not answer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("exit 3", r"ended with status 3: $"),
        ("echo first >&2; echo last >&2; exit 1", "ended with status 1: last$"),
        ("kill -SEGV $$", "ended with status -11"),
        ("true", "does not answer as a Python does"),
        ("echo '[]'", "does not answer as a Python does"),
        ("echo 'envdoctor-answer: '", "does not answer as a Python does"),
        ("echo 'envdoctor-answer: []'", "does not answer as a Python does"),
        ("echo 'envdoctor-answer: {\"version\": 3}'", "does not answer as a Python does"),
        ('echo \'envdoctor-answer: {"version": ["x"], "prefix": []}\'', "does not answer as a Python does"),
        ("head -c 100000 /dev/urandom", "does not answer as a Python does"),
        ("echo \"envdoctor-answer: $(head -c 100000 /dev/zero | tr '\\\\0' '[')\"", "does not answer as a Python does"),
        ("yes", "was given up after 16 MB of output"),
    ],
)
def test_nonsense_is_one_error(program: str, complaint: str, tmp_path: Path) -> None:
    script = write_script(tmp_path / "python", program)

    with pytest.raises(ProbeError, match=complaint):
        ask_interpreter(script)


@pytest.mark.parametrize("content", [b"", b"MZ\x90\x00", b"\x7fELF", b"#!/nowhere/python\n"])
def test_a_file_that_is_no_program_is_one_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_bytes(content)
    path.chmod(0o755)

    with pytest.raises(ProbeError, match=r"`.*/python` does"):
        ask_interpreter(path)


def test_an_interpreter_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_DEADLINE_SECONDS", 1)
    script = write_script(tmp_path / "python", f"sleep 1000 & echo $! > {tmp_path}/pid; wait")

    with pytest.raises(ProbeError, match="was given up after 1 seconds"):
        ask_interpreter(script)

    assert ends((tmp_path / "pid").read_text().strip())


# --- what files do not tell --------------------------------------------------------------------------------------


def test_a_venv_that_does_not_name_its_version_is_read_from_its_library(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv", SOME_VERSION)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")

    guess = guess_interpreter(tmp_path / "venv", None)

    assert guess.version == (3, 8)
    assert not guess.user_site_enabled


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"home\nversion = x.y\n", b"= = =\n", b"version = 3.8.18\n" * 1000])
def test_any_pyvenv_cfg_is_read(content: bytes, tmp_path: Path) -> None:
    make_venv(tmp_path / "venv", SOME_VERSION)
    (tmp_path / "venv" / "pyvenv.cfg").write_bytes(content)

    assert guess_interpreter(tmp_path / "venv", None).version[:2] == (3, 8)


def test_a_prefix_with_several_libraries_is_read_by_the_name_of_its_interpreter(tmp_path: Path) -> None:
    for version in ("3.7", "3.10", "3.9"):
        (tmp_path / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)

    assert guess_interpreter(tmp_path, tmp_path / "bin" / "python3.7").version == (3, 7)
    assert guess_interpreter(tmp_path, tmp_path / "bin" / "python").version == (3, 10)


@pytest.mark.parametrize("name", ["python3.8", "gcc", "python-config"])
def test_a_prefix_without_the_library_of_its_interpreter_is_one_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.7" / "site-packages").mkdir(parents=True)

    with pytest.raises(ProbeError, match=rf"holds no lib/{name}"):
        guess_interpreter(tmp_path, tmp_path / "bin" / name)


def test_loops_of_links_are_no_library(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "python3.8").symlink_to("python3.8")

    with pytest.raises(ProbeError, match="holds no lib/python"):
        guess_interpreter(tmp_path, None)


def test_a_free_threaded_python_is_read_from_its_own_library(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.13t" / "site-packages").mkdir(parents=True)

    guess = guess_interpreter(tmp_path, tmp_path / "bin" / "python3.13t")

    assert guess.version == (3, 13)
    assert guess.extension_suffixes[0].startswith(".cpython-313t-")
    assert guess.site_folders == (str(tmp_path / "lib" / "python3.13t" / "site-packages"),)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_child_runs_on_its_own(version: str, tmp_path: Path) -> None:
    shutil.copy(CHILD, tmp_path / "child.py")

    ended = subprocess.run([find_python(version), "-B", "-S", tmp_path / "child.py"], check=True, capture_output=True)

    assert ended.stdout.startswith(b"\nenvdoctor-answer: {")
    assert not ended.stderr
