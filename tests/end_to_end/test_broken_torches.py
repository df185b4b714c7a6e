"""What breaks `import torch` itself: small compiled torches, opened as real ones are, so that the real loader is asked.

Each is the fault of a thread; where one has no words of the loader, torch or a framework refuses what is loaded.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from envdoctor import api
from envdoctor.model.facts import Facts
from tests.compiler import build_library, needs_compiler
from tests.end_to_end.real_loader import ask, ask_torch, examine, predicted_of_torch
from tests.probes.pythons import find_python, make_prefix, site_packages_of
from tests.probes.torch_packages import make_torch

RPATH_OF_CONDA = ("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../lib")
OWN_TORCH = ("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN")  # RUNPATH, as in wheels of torch up to 1.12


@dataclass(frozen=True)
class Scene:
    """An environment with a torch, and a folder elsewhere for what other installations bring."""

    python: Path
    elsewhere: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def torch(self) -> Path:
        return site_packages_of(self.python) / "torch"

    @property
    def prefix(self) -> Path:
        return self.python.parents[1]

    def put_in_front(self, folder: Path) -> Callable[[], object]:
        """Let the loader look there first; return what takes it back."""
        self.monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        return lambda: self.monkeypatch.delenv("LD_LIBRARY_PATH")

    def let_torch_need(self, *libraries: Path, calls: str = "", options: tuple[str, ...] = OWN_TORCH) -> None:
        """Build the library that torch's module needs, so that it needs others and calls a function of theirs."""
        code = f'extern "C" void {calls}(); void go() {{ {calls}(); }}' if calls else ""
        build_library(self.torch / "lib" / "libtorch_python.so", code, needs=libraries, options=options)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is reported about the loader."""

    code: str
    message: str
    evidence: tuple[str, ...]
    command: str


def findings(facts: Facts) -> list[Told]:
    report = api.judge(facts, api.Selection(select=("ED3",)))
    return [
        Told(
            code=outcome.rule.code,
            message=finding.message,
            evidence=tuple(evidence.value for evidence in finding.evidence),
            command="\n".join(finding.remedy.commands if finding.remedy else ()),
        )
        for outcome in report.outcomes
        for finding in outcome.findings
    ]


def library(path: Path, *functions: str, version: str = "") -> Path:
    """Build a library of C functions; *version* is the name of a version that they have."""
    source = "".join(f'extern "C" void {name}() {{}}' for name in functions)
    script = path.with_suffix(".map")
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"{version} {{ global: *; }};")
    return build_library(path, source, options=[f"-Wl,--version-script={script}"] if version else [])


def add_conda_package(prefix: Path, name: str, version: str, *files: str) -> None:
    (prefix / "conda-meta").mkdir(exist_ok=True)
    record = {"name": name, "version": version, "build": "0", "files": files}
    (prefix / "conda-meta" / f"{name}-{version}-0.json").write_text(json.dumps(record))


# --- the faults --------------------------------------------------------------------------------------------------


def older_nccl(scene: Scene) -> Callable[[], object]:
    """https://github.com/pytorch/pytorch/issues/119072"""
    own = library(scene.torch / "lib" / "libnccl.so.2", "ncclCommRegister")
    scene.let_torch_need(own, calls="ncclCommRegister")
    return scene.put_in_front(library(scene.elsewhere / "nccl-2.18" / "libnccl.so.2").parent)


def older_nvjitlink(scene: Scene) -> Callable[[], object]:
    """https://github.com/infiniflow/ragflow/issues/4466"""
    nvidia = site_packages_of(scene.python) / "nvidia"
    own = library(
        nvidia / "nvjitlink" / "lib" / "libnvJitLink.so.12", "__nvJitLinkAddData_12_1", version="libnvJitLink.so.12"
    )
    sparse = build_library(
        nvidia / "cusparse" / "lib" / "libcusparse.so.12",
        'extern "C" void __nvJitLinkAddData_12_1(); void go() { __nvJitLinkAddData_12_1(); }',
        needs=[own],
        options=["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/../../nvjitlink/lib"],
    )
    scene.let_torch_need(sparse, options=("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../../nvidia/cusparse/lib"))
    older = library(scene.elsewhere / "cuda-12.1" / "lib64" / "libnvJitLink.so.12", version="libnvJitLink.so.12")
    return scene.put_in_front(older.parent)


def older_cublaslt(scene: Scene) -> Callable[[], object]:
    """https://github.com/pytorch/pytorch/issues/103832"""
    nvidia = site_packages_of(scene.python) / "nvidia"
    own = library(
        nvidia / "cublas" / "lib" / "libcublasLt.so.11", "cublasLtGetStatusString", version="libcublasLt.so.11"
    )
    blas = build_library(
        nvidia / "cublas" / "lib" / "libcublas.so.11",
        'extern "C" void cublasLtGetStatusString(); void go() { cublasLtGetStatusString(); }',
        needs=[own],
        options=["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN"],
    )
    scene.let_torch_need(blas, options=("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../../nvidia/cublas/lib"))
    older = library(scene.elsewhere / "cuda-11.3" / "lib64" / "libcublasLt.so.11", version="libcublasLt.so.11")
    return scene.put_in_front(older.parent)


def mkl_without_its_profiler(scene: Scene) -> Callable[[], object]:
    """https://github.com/pytorch/pytorch/issues/123097, https://github.com/open-mmlab/mmpretrain/issues/1900"""
    with_profiler = library(scene.elsewhere / "mkl-2024.0" / "libmkl_core.so.2", "iJIT_NotifyEvent")
    scene.let_torch_need(with_profiler, calls="iJIT_NotifyEvent", options=("-Wl,-rpath,$ORIGIN/../../../..",))
    installed = library(scene.prefix / "lib" / "libmkl_core.so.2")
    add_conda_package(scene.prefix, "mkl", "2024.1.0", "lib/libmkl_core.so.2")
    return lambda: shutil.copyfile(with_profiler, installed)


def older_libstdcxx_of_the_system(scene: Scene) -> Callable[[], object]:
    """https://github.com/pytorch/pytorch/issues/87279"""
    own = scene.prefix / "lib" / "libstdc++.so.6"
    library(own, "of_the_future", version="GLIBCXX_3.4.99")
    scene.let_torch_need(own, calls="of_the_future", options=("-nostdlib",))
    return lambda: scene.monkeypatch.setenv("LD_PRELOAD", str(own))


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """An environment of conda's layout; there is no conda here."""
    python = make_prefix(tmp_path / "env", "3.11")
    add_conda_package(tmp_path / "env", "python", "3.11.7")
    make_torch(python, "1.12", finds_nvidia=False)
    return Scene(python, tmp_path / "elsewhere", monkeypatch)


@needs_compiler
@pytest.mark.parametrize(
    ("make", "says", "code", "command"),
    [
        (older_nccl, "undefined symbol: ncclCommRegister", "ED306", "unset LD_LIBRARY_PATH"),
        (
            older_nvjitlink,
            "undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
            "ED306",
            "unset LD_LIBRARY_PATH",
        ),
        (
            older_cublaslt,
            "undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11",
            "ED306",
            "unset LD_LIBRARY_PATH",
        ),
        (mkl_without_its_profiler, "undefined symbol: iJIT_NotifyEvent", "ED301", "'mkl<2024.1'"),
        (older_libstdcxx_of_the_system, "version `GLIBCXX_3.4.99' not found", "ED306", "export LD_PRELOAD="),
    ],
)
def test_what_ends_the_import_of_torch_is_told_with_the_way_out(
    make: Callable[[Scene], Callable[[], object]], says: str, code: str, command: str, scene: Scene
) -> None:
    mend = make(scene)
    [words] = ask_torch(scene.python)
    facts = examine(scene.python)
    [finding] = findings(facts)
    mend()

    assert says in words
    assert predicted_of_torch(facts) == [words]
    assert finding.code == code
    assert command in finding.command
    assert ask_torch(scene.python) == []
    assert findings(examine(scene.python)) == []


def older_cudnn(scene: Scene) -> None:
    """https://github.com/bmaltais/kohya_ss/issues/1096, https://github.com/pytorch/pytorch/issues/80637"""
    own = named_by_its_version(scene.torch / "lib", "8.7.0")
    scene.let_torch_need(own)
    scene.put_in_front(named_by_its_version(scene.elsewhere, "8.2.4").parent)


def the_same_cudnn(scene: Scene) -> None:
    """The healthy counterpart."""
    own = named_by_its_version(scene.torch / "lib", "8.7.0")
    scene.let_torch_need(own)
    scene.put_in_front(named_by_its_version(scene.elsewhere, "8.7.0").parent)


def named_by_its_version(folder: Path, version: str) -> Path:
    """Build a cuDNN as its packages install it: the file, and the link by which it is loaded."""
    link = library(folder / "libcudnn.so.8", f"of_{version.replace('.', '_')}")
    file = link.rename(folder / f"libcudnn.so.{version}")
    link.symlink_to(file.name)
    return link


@needs_compiler
@pytest.mark.parametrize(("make", "codes"), [(older_cudnn, ["ED306"]), (the_same_cudnn, [])])
def test_a_cudnn_that_torch_refuses_is_told_although_it_loads(
    make: Callable[[Scene], None], codes: list[str], scene: Scene
) -> None:
    make(scene)
    found = findings(examine(scene.python))

    assert ask_torch(scene.python) == []
    assert [finding.code for finding in found] == codes
    assert all("8.2.4" in finding.message and "8.7.0" in finding.message for finding in found)


@needs_compiler
def test_a_cached_extension_wants_a_newer_library_of_the_compiler(scene: Scene) -> None:
    """https://github.com/RenYurui/PIRender/issues/21, https://github.com/sunset1995/DirectVoxGO/issues/19"""
    cache = scene.elsewhere / "torch_extensions"
    folder = cache / "py311_cu121" / "nvdiffrast_plugin"
    newer = library(scene.elsewhere / "newer" / "libstdc++.so.6", "of_the_future", version="GLIBCXX_3.4.99")
    plugin = build_library(
        folder / "nvdiffrast_plugin.so",
        'extern "C" void of_the_future(); extern "C" void PyInit_nvdiffrast_plugin() { of_the_future(); }',
        needs=[newer],
        options=["-nostdlib"],
    )
    (scene.torch / "include").mkdir()
    (folder / "build.ninja").write_text(f"cflags = -isystem {scene.torch}/include\n")
    scene.monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(cache))
    [words] = ask(scene.python, plugin, import_torch=True)
    [finding] = findings(examine(scene.python))

    assert "version `GLIBCXX_3.4.99' not found" in words
    assert finding.code == "ED305"
    assert words in finding.evidence


@needs_compiler
def test_a_python_of_conda_finds_the_older_library_of_the_compiler_first(scene: Scene) -> None:
    """https://github.com/sunset1995/DirectVoxGO/issues/19: its RPATH leads to the environment's own libstdc++."""
    replace_python(scene.prefix / "bin" / "python3.11")
    library(scene.prefix / "lib" / "libstdc++.so.6", version="GLIBCXX_3.4")
    newer = library(scene.elsewhere / "newer" / "libstdc++.so.6", "of_the_future", version="GLIBCXX_3.4.99")
    package = site_packages_of(scene.python) / "package"
    extension = build_library(
        package / "_C.so",
        'extern "C" void of_the_future(); extern "C" void PyInit__C() { of_the_future(); }',
        needs=[newer],
        options=["-nostdlib"],
    )
    (package / "__init__.py").write_text("from . import _C\n")
    [words] = ask(scene.python, extension, import_torch=False)
    [finding] = findings(examine(scene.python))

    assert words.startswith(f"{scene.prefix}/bin/../lib/libstdc++.so.6: version `GLIBCXX_3.4.99' not found")
    assert finding.code == "ED305"
    assert words in finding.evidence
    assert finding.command.startswith("conda install ")


def replace_python(path: Path) -> None:
    """Build an interpreter that looks for its libraries in the environment, as conda's does."""
    library_folder = find_python("3.11").resolve().parents[1] / "lib"
    if not (library_folder / "libpython3.11.so").exists():
        pytest.skip("the Python 3.11 of this machine has no shared library")
    path.unlink()
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", path, f"-L{library_folder}", "-lpython3.11", *RPATH_OF_CONDA],
        input="int Py_BytesMain(int, char**); int main(int count, char** words) { return Py_BytesMain(count, words); }",
        text=True,
        check=True,
    )
