"""`envdoctor why` on real libraries: what people and programs get to read."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

import envdoctor
from envdoctor.cli import cli
from envdoctor.errors import UnknownLibraryError
from tests.compiler import build_library, needs_compiler
from tests.probes.pythons import make_venv
from tests.probes.venvs import SUFFIX, VERSION, Venv, init

pytestmark = needs_compiler

SCHEMA = json.loads((Path(envdoctor.__file__).parent / "render" / "why.schema.json").read_text())


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Venv:
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    return Venv(make_venv(tmp_path / "venv", VERSION))


def why(venv: Venv, *args: str) -> Result:
    where = ["--python", str(venv.python), "--gpu", "4090"]
    return CliRunner().invoke(cli, ["why", *where, *args], standalone_mode=False)


def text(venv: Venv, *args: str) -> str:
    result = why(venv, *args)
    assert (result.exception, result.return_value) == (None, 0)
    return result.stdout.replace(str(venv.site), "SITE")


def document(venv: Venv, *args: str) -> Any:
    parsed = json.loads(why(venv, "--format", "json", *args).stdout)
    jsonschema.validate(parsed, SCHEMA)
    return parsed


@pytest.fixture
def broken(venv: Venv) -> Venv:
    """A package whose extension module lacks a symbol of one library, and finds another library elsewhere."""
    folder = venv.package("x", "from . import _C")
    build_library(venv.site / "y" / "libown.so.1", "int old(int) { return 0; }")
    own = build_library(folder / "lib" / "libown.so.1")
    source = "int old(int);" + init("_C", "old(1); return 0;")
    runpath = ("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/lib")
    build_library(folder / f"_C{SUFFIX}", source, needs=(own,), options=runpath)
    build_library(folder / f"_D{SUFFIX}", init("_D"))
    return venv


def test_the_story_of_a_library_that_is_refused(broken: Venv) -> None:
    lines = text(broken, "x").splitlines()

    assert lines[:7] == [
        f"x/_C{SUFFIX}",
        "  lies in      SITE",
        "  belongs to   x 1.0",
        "  imported as  x._C, always: x/__init__.py:1",
        f"  soname       _C{SUFFIX}",
        "  RUNPATH      $ORIGIN/lib",
        "  loader       refuses it in a Python that has loaded nothing else, and says",
    ]
    assert "undefined symbol: _Z3oldi" in " ".join(lines[7:10])
    start = lines.index("lacks 1 symbol that nothing defines")
    assert lines[start : start + 10] == [
        "lacks 1 symbol that nothing defines",
        "  old(int)",
        "      _Z3oldi",
        "      has it: y/libown.so.1",
        "",
        "needs",
        "  libown.so.1  x/lib/libown.so.1",
        "      through its RUNPATH",
        "      not taken: y/libown.so.1",
        "  libstdc++.so.6  " + lines[start + 9].split("  ")[-1],
    ]
    assert "  more: envdoctor check, envdoctor explain ED313" in lines
    assert lines[-2:] == ["x may also mean", f"  x/_D{SUFFIX}"]


def test_versions_of_which_there_is_but_one_are_for_those_who_ask(venv: Venv, tmp_path: Path) -> None:
    script = tmp_path / "versions"
    script.write_text("LIBAVCODEC_63 { *; };")
    own = build_library(tmp_path / "libown.so.1", "int f() { return 0; }", options=(f"-Wl,--version-script={script}",))
    source = "int f();" + init("_C", "f(); return 0;")
    build_library(venv.package("x") / f"_C{SUFFIX}", source, needs=(own,), options=(f"-Wl,-rpath,{tmp_path}",))

    assert "LIBAVCODEC_63" not in text(venv, "x")
    assert "libown.so.1: LIBAVCODEC_63, the newest there is LIBAVCODEC_63" in text(venv, "x", "--verbose")


def test_the_same_for_programs(broken: Venv) -> None:
    told = document(broken, "x")

    assert told["library"]["module"] == "x._C"
    assert told["library"]["failure"]["name"] == "_Z3oldi"
    assert told["library"]["missing_symbols"][0]["written"] == "old(int)"
    assert [finding["code"] for finding in told["findings"]] == ["ED313"]
    assert told["namesakes"] == [{"path": f"{broken.site}/x/_D{SUFFIX}", "module": "x._D", "fails": False}]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_kind_of_story_fits_the_schema(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    venv.torch(needs=(gone,))
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(gone,))
    (venv.site / "x" / f"_D{SUFFIX}").write_bytes(b"\x7fELF")

    for asked in ("torch", "libc.so.6", "x._C", "x._D", str(gone)):
        assert document(venv, asked)["asked"] == asked


def test_a_torch_that_fails_is_told_with_its_rule(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    torch = venv.torch(needs=(gone,))
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))

    assert [finding["code"] for finding in document(venv, "torch")["findings"]] == ["ED301"]
    assert "  loader       is not asked: `import torch` comes first, and fails:" in text(venv, "x").splitlines()


def test_what_another_package_lacks_too_is_not_told_of_it(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    for name in ("x", "y"):
        build_library(venv.package(name, "from . import _C") / f"_C{SUFFIX}", init("_C"), needs=(gone,))
    gone.unlink()

    [finding] = document(venv, "x")["findings"]
    assert finding["message"].startswith("x 1.0 ")


def test_a_terminal_sequence_in_a_name_is_shown_escaped(venv: Venv, tmp_path: Path) -> None:
    path = build_library(tmp_path / "lib\x1b[31mred.so")

    assert "\x1b" not in text(venv, str(path))


def test_many_namesakes_are_counted(venv: Venv) -> None:
    folder = venv.package("x")
    for number in range(10):
        build_library(folder / f"_C{number}{SUFFIX}", init(f"_C{number}"))

    assert text(venv, "x").endswith("  and 3 more (--verbose names them)\n")
    assert text(venv, "x", "--verbose").endswith(f"  x/_C9{SUFFIX}\n")


def test_colour_changes_nothing_but_colour(broken: Venv) -> None:
    coloured = text(broken, "x", "--color", "always")

    assert "\x1b[1;31m" in coloured
    assert "refuses it" in coloured


def test_an_unknown_name_is_wrong_usage(venv: Venv) -> None:
    error = why(venv, "libnothing.so").exception

    assert isinstance(error, UnknownLibraryError)
    assert error.exit_code == 2
