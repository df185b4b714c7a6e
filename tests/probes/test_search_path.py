import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import editables
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.facts import SearchEntry
from envdoctor.probes.search_path import SearchPath, build_search_path, split_python_path
from tests.probes.pythons import ask, make_prefix, site_packages_of, sys_path_of

EASY_INSTALL_PTH = """\
import sys; sys.__plen = len(sys.path)
./six-1.10.0-py2.7.egg
second
import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; \
p=getattr(sys,'__egginsert',0); sys.path[p:p]=new; sys.__egginsert = p+len(new)
"""


@pytest.fixture(autouse=True)
def _plain_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    monkeypatch.delenv("PYTHONPATH", raising=False)


def search(folder: Path, version: str = "3.8.18", library: Iterable[str] = ()) -> SearchPath:
    return build_search_path(
        [SearchEntry(path=path, origin="standard library") for path in library],
        [SearchEntry(path=str(folder), origin="site-packages")],
        tuple(map(int, version.split("."))),
    )


def paths(found: SearchPath) -> list[str]:
    return [entry.path for entry in found.entries]


# --- against real interpreters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"first\nsecond\n",
        b"second\r\nfirst\r\n",
        b"# a comment\n\n   \nfirst\n",
        b"  first\n",
        b"first   \t\n",
        b"missing\nfirst",
        b"first\nfirst\n./first\n.\n",
        b"import os\nfirst\nimport\tos\nimportant\n",
        b"a file\n/\n",
        b"\xef\xbb\xbffirst\nsecond\n",
        "café\nfirst\n".encode(),
        EASY_INSTALL_PTH.encode(),
    ],
)
@pytest.mark.parametrize("version", ["2.7", "3.6", "3.12", "3.13"])
def test_the_lines_of_a_pth_file_lead_where_the_interpreter_goes(version: str, content: bytes, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    site_packages = site_packages_of(python)
    *library, _ = sys_path_of(python)
    for name in ("first", "second", "important", "café", "six-1.10.0-py2.7.egg"):
        (site_packages / name).mkdir()
    (site_packages / "a file").touch()
    (site_packages / "some.pth").write_bytes(content)

    found = search(site_packages, version, library)

    # Python 2 may have its site-packages twice, which makes no difference.
    assert paths(found) == list(dict.fromkeys(sys_path_of(python)))


@pytest.mark.parametrize("version", ["2.7", "3.7", "3.13"])
def test_pth_files_are_read_in_the_order_of_their_names(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    site_packages = site_packages_of(python)
    *library, _ = sys_path_of(python)
    for name in ("b", "a", "B", "_", "10", "9", ".hidden"):
        (site_packages / name).mkdir()
        (site_packages / f"{name}.pth").write_text(name)
    (site_packages / "c.pth").mkdir()
    (site_packages / "d.pth").symlink_to("d.pth")
    (site_packages / "e.path").write_text("/")

    full_version = {"2.7": "2.7.18", "3.7": "3.7.16", "3.13": "3.13.0"}[version]
    found = search(site_packages, full_version, library)

    assert paths(found) == sys_path_of(python)


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.13"])
def test_a_pth_file_that_is_not_utf_8_is_noted_because_python_does_not_start_with_it(
    version: str, tmp_path: Path
) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    (site_packages_of(python) / "latin.pth").write_bytes("café\n".encode("latin-1"))

    found = search(site_packages_of(python), version)

    assert any("is not UTF-8: Python 3 does not start with it" in note for note in found.notes)
    with pytest.raises(subprocess.CalledProcessError):
        sys_path_of(python)


# --- notes -------------------------------------------------------------------------------------------------------


def test_a_target_that_is_gone_is_noted(tmp_path: Path) -> None:
    (tmp_path / "old.pth").write_text("/gone/checkout\n")

    assert search(tmp_path).notes == (f"`{tmp_path}/old.pth` names `/gone/checkout`, which does not exist",)


def test_of_many_targets_that_are_gone_a_few_are_named(tmp_path: Path) -> None:
    (tmp_path / "old.pth").write_text("".join(f"/gone/{number}\n" for number in range(10_000)))
    notes = search(tmp_path).notes

    assert notes[0] == f"`{tmp_path}/old.pth` names `/gone/0`, which does not exist"
    assert notes[-1] == f"`{tmp_path}/old.pth` names 9995 more that do not exist"
    assert len(notes) == 6


def test_a_pth_file_of_another_kind_is_noted(tmp_path: Path) -> None:
    (tmp_path / "weights.pth").touch()
    os.truncate(tmp_path / "weights.pth", 1 << 31)  # a checkpoint of torch has the same suffix

    assert search(tmp_path).notes == (f"`{tmp_path}/weights.pth` cannot be read: File too large",)


def test_a_byte_order_mark_is_noted_where_it_spoils_the_path(tmp_path: Path) -> None:
    (tmp_path / "bom.pth").write_bytes(b"\xef\xbb\xbf/tmp\n")

    assert any("opens with a byte-order mark" in note for note in search(tmp_path, "3.12.1").notes)
    assert search(tmp_path, "3.13.0").notes == ()


def test_code_that_runs_at_every_start_is_noted_once_per_file(tmp_path: Path) -> None:
    (tmp_path / "hook.pth").write_text("import hook\nimport hook.more\n")

    assert search(tmp_path).notes == (
        f"`{tmp_path}/hook.pth` runs code at every start, which was not followed: import hook",
    )


@pytest.mark.parametrize(
    "name", ["distutils-precedence.pth", "_virtualenv.pth", "matplotlib-3.5.1-py3.8-nspkg.pth", "a1_coverage.pth"]
)
def test_the_usual_hooks_are_not_worth_a_note(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("import something")

    assert search(tmp_path).notes == ()


def test_a_site_folder_that_was_deleted_in_between_is_noted(tmp_path: Path) -> None:
    found = search(tmp_path / "deleted")

    assert paths(found) == [str(tmp_path / "deleted")]
    assert found.notes == (f"`{tmp_path}/deleted` cannot be listed: No such file or directory",)


# --- editable installs -------------------------------------------------------------------------------------------

FLAT = """
[build-system]
requires = []
build-backend = "setuptools.build_meta"
[project]
name = "flat"
version = "1"
[tool.setuptools]
packages = ["flat", "flat_tools"]
"""
NESTED = """
[build-system]
requires = []
build-backend = "setuptools.build_meta"
[project]
name = "nested"
version = "1"
"""
MOVED = """
[build-system]
requires = []
build-backend = "setuptools.build_meta"
[project]
name = "moved"
version = "1"
[tool.setuptools.package-dir]
moved = "lib/moved"
"""
EXACT = """
[build-system]
requires = []
build-backend = "hatchling.build"
[project]
name = "exact"
version = "1"
[tool.hatch.build]
dev-mode-exact = true
packages = ["src/exact"]
"""
PLAIN = """
[build-system]
requires = []
build-backend = "hatchling.build"
[project]
name = "plain"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["src/plain"]
"""
PROJECTS = {
    "flat": (FLAT, ["flat", "flat_tools"]),
    "nested": (NESTED, ["src/nested"]),
    "moved": (MOVED, ["lib/moved"]),
    "exact": (EXACT, ["src/exact"]),
    "plain": (PLAIN, ["src/plain"]),
}


@pytest.fixture(scope="module")
def editable_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv into which pip installed projects of several build backends as editable ones."""
    folder = tmp_path_factory.mktemp("editable")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    for name, (pyproject, packages) in PROJECTS.items():
        for package in packages:
            (folder / name / package).mkdir(parents=True)
            (folder / name / package / "__init__.py").touch()
        (folder / name / "pyproject.toml").write_text(pyproject)
    # pip and the backends are those of the tests' own environment; hatchling's hook needs `editables` when it runs.
    tools = Path(editables.__file__).parents[1]
    shutil.copytree(tools / "editables", site_packages_of(python) / "editables")
    variables = {**os.environ, "PYTHONPATH": str(tools), "PIP_CONFIG_FILE": os.devnull}
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    projects = [f"--editable={folder / name}" for name in PROJECTS]
    subprocess.run([python, "-m", "pip", "install", *options, *projects], check=True, env=variables)
    return python


@pytest.mark.parametrize("package", ["flat", "flat_tools", "nested", "moved", "exact", "plain"])
def test_an_editable_package_is_found_where_the_interpreter_finds_it(editable_python: Path, package: str) -> None:
    module = ask(editable_python, f"__import__('importlib.util').util.find_spec({package!r}).origin")

    found = search(site_packages_of(editable_python), "3.11.7")

    folder = Path(module).parents[1]
    assert [entry for entry in found.entries if entry.path == str(folder)]
    assert found.notes == ()


def test_the_folder_of_an_import_hook_serves_its_packages_alone(editable_python: Path) -> None:
    repository = editable_python.parents[2] / "flat"

    found = search(site_packages_of(editable_python), "3.11.7")

    origins = [entry.origin for entry in found.entries if entry.path == str(repository)]
    assert origins == ["editable flat", "editable flat_tools"]


# The hooks of backends that are not among the tools of the tests, as pip left them: setuptools 64, scikit-build-core
# 0.11, and meson-python 0.18, whose packages cannot be told from the hook.


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("MAPPING = {'pkg': '/repo/src/pkg'}\nNAMESPACES = {}\n", ["/repo/src"]),
        ("install({'pkg': '/repo/src/pkg/__init__.py'}, {}, {'pkg': ['/repo/src/pkg']}, ['pkg'], None)", ["/repo/src"]),
        ("install({'pkg': '/repo/src/pkg/__init__.py', 'pkg.sub': '/repo/src/pkg/sub.py'})", ["/repo/src"]),
        ("MAPPING = {'renamed': '/repo/src/pkg'}", []),
        ("MAPPING = {'pkg': __file__}", []),
        ("install({'pkg'}, '/repo/build/cp311', ['ninja'], False)", []),
        ("not Python", []),
        ("(" * 10_000, []),
        pytest.param("MAPPING = {'pkg': '/repo/src/pkg'}\n" + "#" * (1 << 20), [], id="long"),
        ("MAPPING = {'pkg': '/\\0/pkg'}", ["/?"]),
        ("MAPPING = {'pkg': '/\\ud800/pkg'}", ["/?"]),
    ],
)
def test_import_hooks_are_read_where_they_are_clear(hook: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "__editable__.pkg.pth").write_text("import __editable___pkg_finder; __editable___pkg_finder.install()")
    (tmp_path / "__editable___pkg_finder.py").write_text(hook)

    found = search(tmp_path)

    assert paths(found) == [str(tmp_path), *expected]
    assert bool(found.notes) is not bool(expected)


@pytest.mark.parametrize(
    "line", ["import /etc/hook", "import ../hook", "import ;", "import .", "import \0", "import a b"]
)
def test_an_import_that_is_no_module_is_noted(line: str, tmp_path: Path) -> None:
    (tmp_path / "hook.pth").write_text(line)

    [note] = search(tmp_path).notes

    assert note.endswith(line)


def test_an_import_hook_that_is_clear_in_part_is_followed_and_noted(tmp_path: Path) -> None:
    (tmp_path / "hook.pth").write_text("import hook; hook.install()")
    (tmp_path / "hook.py").write_text("MAPPING = {'pkg': '/repo/src/pkg', 'renamed': '/repo/src/other'}")

    found = search(tmp_path)

    assert paths(found) == [str(tmp_path), "/repo/src"]
    assert any("was not followed" in note for note in found.notes)


# --- anything at all ---------------------------------------------------------------------------------------------


@given(content=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_pth_file_gives_a_search_path(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("site")
    (folder / "any.pth").write_bytes(content)

    found = search(folder)

    assert found.entries[0].path == str(folder)


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("", []), ("/a:/b", ["/a", "/b"]), ("/a/:/b/../c", ["/a", "/c"]), (":", ["", ""]), ("x", ["x"])],
)
def test_pythonpath_is_split_as_python_does(variable: str, expected: list[str]) -> None:
    assert [entry.path for entry in split_python_path(variable)] == [str(Path.cwd() / path) for path in expected]
