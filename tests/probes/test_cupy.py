"""Where the compiler of CuPy lies, and whether CuPy finds it there."""

import json
from pathlib import Path

import pytest

from envdoctor.model.facts import Absence, CupyBuild, Distribution, Environment, SearchEntry, Unavailable
from envdoctor.probes.cupy import read_cupy_build
from tests.builders import a_distribution, an_environment

# A major version that no system has.
OLD, NEW = a_distribution("cupy-cuda99x", "13.6.0"), a_distribution("cupy-cuda99x", "14.2.0")
SONAME = "libnvrtc.so.99"


def environment_of(prefix: Path, kind: str = "venv") -> Environment:
    site = SearchEntry(path=str(prefix / "site-packages"), origin="site-packages")
    return an_environment(prefix=str(prefix), search_path=(site,), kind=kind)


def read(environment: Environment, cupy: Distribution) -> CupyBuild:
    build = read_cupy_build(environment, (cupy,), ())
    assert isinstance(build, CupyBuild)
    return build


def put(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / SONAME).touch()
    return str(folder / SONAME)


@pytest.fixture(autouse=True)
def without_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "soname"),
    [
        ("cupy-cuda13x", "libnvrtc.so.13"),
        ("cupy-cuda12x", "libnvrtc.so.12"),
        ("cupy-cuda11x", "libnvrtc.so.11.2"),
        ("cupy-cuda117", "libnvrtc.so.11.2"),
        ("cupy-cuda111", "libnvrtc.so.11.1"),
        ("cupy-cuda102", "libnvrtc.so.10.2"),
    ],
)
def test_the_name_of_the_wheel_tells_the_name_of_its_compiler(tmp_path: Path, name: str, soname: str) -> None:
    assert read(environment_of(tmp_path), a_distribution(name, "12.3.0")).nvrtc == soname


@pytest.mark.parametrize(("cuda", "soname"), [("12.x", "libnvrtc.so.12"), ("11.x", "libnvrtc.so.11.2")])
def test_of_two_wheels_the_one_whose_files_lie_there_counts(tmp_path: Path, cuda: str, soname: str) -> None:
    package = tmp_path / "site-packages" / "cupy"
    (package / ".data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / ".data" / "_wheel.json").write_text(json.dumps({"cuda": cuda, "packaging": "pip"}))
    wheels = (a_distribution("cupy-cuda11x", "13.6.0"), a_distribution("cupy-cuda12x", "14.2.0"))
    build = read_cupy_build(environment_of(tmp_path), wheels, ())

    assert isinstance(build, CupyBuild)
    assert build.nvrtc == soname


@pytest.mark.parametrize("note", ["", "[]", "{}", "null", "[" * 100000])
def test_a_damaged_note_leaves_the_first(tmp_path: Path, note: str) -> None:
    package = tmp_path / "site-packages" / "cupy"
    (package / ".data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / ".data" / "_wheel.json").write_text(note)

    assert read(environment_of(tmp_path), OLD).nvrtc == SONAME


def test_there_may_be_none(tmp_path: Path) -> None:
    build = read(environment_of(tmp_path), NEW)

    assert (build.findable, build.hidden) == ((), ())


@pytest.mark.parametrize("folder", ["nvidia/cuda_nvrtc/lib", "nvidia/cu99/lib"])
def test_only_newer_ones_look_into_the_wheels_of_nvidia(tmp_path: Path, folder: str) -> None:
    compiler = put(tmp_path / "site-packages" / folder)
    old, new = read(environment_of(tmp_path), OLD), read(environment_of(tmp_path), NEW)

    assert (old.findable, old.hidden) == ((), (compiler,))
    assert (new.findable, new.hidden) == ((compiler,), ())


def test_only_newer_ones_look_into_a_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = put(tmp_path / "cuda" / "lib64")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))

    assert read(environment_of(tmp_path), OLD).hidden == (compiler,)
    assert read(environment_of(tmp_path), NEW).findable == (compiler,)


def test_the_loader_finds_what_is_on_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = put(tmp_path / "lib")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))

    assert read(environment_of(tmp_path), OLD).findable == (compiler,)


def test_the_python_of_conda_finds_the_libraries_beside_it(tmp_path: Path) -> None:
    compiler = put(tmp_path / "lib")

    assert read(environment_of(tmp_path, "conda"), OLD).findable == (compiler,)
    assert read(environment_of(tmp_path), OLD).findable == ()


@pytest.mark.parametrize(
    "other",
    [
        a_distribution("cupy", "13.6.0"),  # from source, or from conda-forge
        a_distribution("cupy-rocm-5-0", "13.6.0"),
        a_distribution("cupy-cuda12x", "13.6.0", shadowed_by="/x"),
    ],
)
def test_others_are_not_judged(tmp_path: Path, other: Distribution) -> None:
    build = read_cupy_build(environment_of(tmp_path), (other,), ())

    assert build == Unavailable("no wheel of CuPy is installed", Absence.NOT_APPLICABLE)


def test_without_distributions_there_is_a_reason(tmp_path: Path) -> None:
    assert read_cupy_build(environment_of(tmp_path), Unavailable("locked"), ()) == Unavailable("locked")
