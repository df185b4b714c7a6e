"""Failures that people reported, rebuilt with small compiled libraries beside a whole torch; each names its thread.

One half lies beside the torch of the tests, where the real loader is asked too. The other half needs a torch for CUDA,
and has a hollow one, of which the loader's words are predicted alone.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.compiler import build_library, needs_compiler
from tests.end_to_end.real_loader import TORCH, copy_torch, needs_torch
from tests.hollow import TORCH_1_13, TORCH_2_7, TORCH_2_14, unpack
from tests.probes.pythons import make_venv, site_packages_of
from tools.verify_loader import ask_loader

Finding = dict[str, Any]

OWN_VERSION = "{}.{}".format(*sys.version_info)
NOT_FOUND = "cannot open shared object file: No such file or directory"
JUDGED = ("ED3", "ED209", "ED216", "ED408")


@dataclass(frozen=True, kw_only=True)
class Package:
    """An installed package whose import opens its library."""

    name: str
    version: str = "1.0"
    module: str = ""  # what it is imported by, if that is another name
    library: str = ""  # path in site-packages, of most `NAME/_C.so`; "-" for none
    lacks: str = ""  # a symbol that it takes from elsewhere
    needs: tuple[str, ...] = ("libc10.so",)
    sources: tuple[str, ...] = ()  # files that it brings besides

    @property
    def folder(self) -> str:
        """The name that it is imported by."""
        return self.module or self.name.replace("-", "_")

    def place(self, site_packages: Path) -> Path:
        return site_packages / (self.library or f"{self.folder}/_C.so")

    def install(self, site_packages: Path) -> None:
        """Compile the library, and write what pip writes."""
        files = [site_packages / name for name in (*self.sources, f"{self.folder}/__init__.py")]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        if self.library != "-":
            files.append(self._compile(site_packages))
        self._write_metadata(site_packages, files)

    def _compile(self, site_packages: Path) -> Path:
        library = self.place(site_packages)
        module = library.name.partition(".")[0]
        own = library.parent.name == self.folder
        (site_packages / self.folder / "__init__.py").write_text(
            f"from . import {module}\n" if own else f"import {module}\n"
        )
        calls = f'extern "C" void {self.lacks}(); void go() {{ {self.lacks}(); }}' if self.lacks else ""
        needed = [build_library(site_packages.parent / "stubs" / name) for name in self.needs]
        return build_library(library, f'{calls} extern "C" void* PyInit_{module}() {{ return nullptr; }}', needs=needed)

    def _write_metadata(self, site_packages: Path, files: list[Path]) -> None:
        folder = site_packages / f"{self.name.replace('-', '_')}-{self.version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n")
        (folder / "INSTALLER").write_text("pip\n")
        listed = [*files, *folder.iterdir(), folder / "RECORD"]
        (folder / "RECORD").write_text("".join(f"{file.relative_to(site_packages)},,\n" for file in listed))


@dataclass(frozen=True, kw_only=True)
class Thread:
    """What somebody reported, and what has to be said to it."""

    url: str
    package: Package
    code: str  # "" where nothing may be said
    message: str = ""  # a part of it
    words: str = ""  # a part of what the loader says
    remedy: str = ""  # a part of it

    def __str__(self) -> str:
        return self.url.removeprefix("https://github.com/").replace("/issues/", "#") + ("" if self.code else " mended")


def check(python: Path, **variables: str) -> list[Finding]:
    """Judge what the loader will do, for a named card, which keeps the GPUs of this machine out of it."""
    options = [word for code in JUDGED for word in ("--select", code)]
    command = [sys.executable, "-m", "envdoctor", "check", "--format", "json", "--gpu", "3090", *options]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "PYTHONPATH", "BNB_"))}
    done = subprocess.run(
        [*command, "--python", str(python)],
        env=clean | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    found: list[Finding] = json.loads(done.stdout)["findings"]
    return found


def about(package: Package, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding["message"].startswith(f"{package.name} ")]


def text_of(finding: Finding) -> str:
    evidence = (f"{each['source']}: {each['value']}" for each in finding["evidence"])
    return "\n".join([finding["message"], *evidence])


def remedy_of(finding: Finding) -> str:
    remedy = finding["remedy"]
    return "\n".join([remedy["summary"], *remedy["commands"]])


# --- beside the torch of the tests, which has the new C++ ABI ----------------------------------------------------

BESIDE_TORCH = (
    Thread(
        url="https://github.com/rusty1s/pytorch_cluster/issues/100",
        package=Package(name="torch-cluster", lacks="_ZNK3c104Type14isSubtypeOfExtESt10shared_ptrIS0_EPSo"),
        code="ED302",
        message="what it lacks is of torch 1.3 to 1.7",  # of pip's cache: 1.8.1 was installed
        remedy="--no-cache-dir",
    ),
    Thread(
        url="https://github.com/facebookresearch/maskrcnn-benchmark/issues/421",
        package=Package(name="maskrcnn-benchmark", lacks="_ZN3c105ErrorC1ENS_14SourceLocationERKSs"),
        code="ED302",
        message="what it lacks is of torch 1.5 or older",
        remedy="--no-build-isolation",
    ),
    Thread(
        url="https://github.com/tianzhi0549/FCOS/issues/160",
        package=Package(name="fcos", lacks="_ZN6caffe26detail37_typeMetaDataInstance_preallocated_32E"),
        code="ED302",
        message="what it lacks is of torch 1.2 to 1.3",
    ),
    Thread(
        url="https://github.com/sczhou/STFAN/issues/15",
        package=Package(
            name="kernelconv2d-cuda", library="kernelconv2d.so", lacks="_ZN2at19UndefinedTensorImpl10_singletonE"
        ),
        code="ED302",
        message="what it lacks is of torch 1.0 or older",
    ),
    Thread(
        url="https://github.com/facebookarchive/Polygames/issues/40",
        package=Package(name="polygames", lacks="THPVariableClass"),
        code="ED302",
        message="was built for another torch than torch",
    ),
    Thread(
        url="https://github.com/open-mmlab/mmcv/issues/2439",
        package=Package(name="mmcv-full", version="1.7.0", lacks="_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"),
        code="ED303",
        message="built for the old C++11 ABI",
    ),
    Thread(
        url="https://github.com/Dao-AILab/flash-attention/issues/1644",
        package=Package(
            name="flash-attn", library="flash_attn_2_cuda.so", lacks="_ZN3c105ErrorC2ENS_14SourceLocationESs"
        ),
        code="ED303",
        message="built for the old C++11 ABI",
        remedy="install the wheel of flash-attn that was built for torch",
    ),
    Thread(
        url="https://github.com/torch-points3d/torch-points3d/issues/780",
        package=Package(name="torch-points-kernels", needs=("libc10.so", "libcudart.so.10.2")),
        code="ED304",
        words=f"libcudart.so.10.2: {NOT_FOUND}",
    ),
    Thread(
        url="https://github.com/rusty1s/pytorch_scatter/issues/211",
        package=Package(name="torch-scatter", version="2.0.6", needs=("libc10.so", "libtorch_cuda_cu.so")),
        code="ED304",
        words=f"libtorch_cuda_cu.so: {NOT_FOUND}",
    ),
    Thread(
        url="https://github.com/Dao-AILab/flash-attention/issues/1644",
        package=Package(
            name="healthy",
            lacks="_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        ),
        code="",
    ),
)


@dataclass(frozen=True)
class Told:
    """What is reported of one environment, and what the loader says to its libraries."""

    site_packages: Path
    findings: list[Finding]
    words: dict[str, str]


@pytest.fixture(scope="module")
def beside_torch(tmp_path_factory: pytest.TempPathFactory) -> Told:
    python = copy_torch(TORCH, make_venv(tmp_path_factory.mktemp("threads") / "venv", OWN_VERSION))
    site_packages = site_packages_of(python)
    for thread in BESIDE_TORCH:
        thread.package.install(site_packages)
    libraries = [str(thread.package.place(site_packages)) for thread in BESIDE_TORCH]
    answers = ask_loader(str(python), libraries, import_torch=True)
    return Told(site_packages, check(python), {library: answers[library].words for library in libraries})


@needs_torch
@needs_compiler
@pytest.mark.parametrize("thread", BESIDE_TORCH, ids=str)
def test_what_the_loader_says_is_told_with_its_cause(thread: Thread, beside_torch: Told) -> None:
    words = beside_torch.words[str(thread.package.place(beside_torch.site_packages))]
    findings = about(thread.package, beside_torch.findings)

    assert [finding["code"] for finding in findings] == [thread.code][: bool(words)]
    assert [finding["evidence"][0]["value"] for finding in findings] == [words][: bool(words)]
    assert all(thread.message in finding["message"] for finding in findings)
    assert all(thread.remedy in remedy_of(finding) for finding in findings)
    assert thread.words in words


# --- beside a torch for CUDA -------------------------------------------------------------------------------------

FLASH_ATTN = Package(name="flash-attn", library="flash_attn_2_cuda.so")
ZEROS = (
    "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_8optionalINS2_10ScalarTypeEEENS6_INS2_6LayoutEEE"
    "NS6_INS2_6DeviceEEENS6_IbEE"
)

HOLLOW = {
    TORCH_1_13: (
        Thread(
            url="https://github.com/Dao-AILab/flash-attention/issues/631",
            package=replace(FLASH_ATTN, version="2.3.2", needs=("libc10.so", "libcudart.so.12")),
            code="ED304",
            message="needs CUDA 12 (`libcudart.so.12`), which is not there; torch 1.13.1+cu117 has CUDA 11.7",
            words=f"libcudart.so.12: {NOT_FOUND}",
        ),
        Thread(
            url="https://github.com/Dao-AILab/flash-attention/issues/1644",
            package=Package(name="healthy", lacks="_ZN3c105ErrorC2ENS_14SourceLocationESs"),
            code="",
        ),
    ),
    TORCH_2_7: (
        Thread(
            url="https://github.com/Dao-AILab/flash-attention/issues/919",
            package=replace(FLASH_ATTN, version="2.5.6", lacks=ZEROS, needs=("libc10.so", "libc10_cuda.so")),
            code="ED302",
            message="what it lacks is of torch 1.13 to 2.1",
        ),
        Thread(
            url="https://github.com/Dao-AILab/flash-attention/issues/631",
            package=Package(name="healthy", needs=("libc10.so", "libcudart.so.12")),
            code="",
        ),
        Thread(
            url="https://github.com/stepfun-ai/Step-Audio-EditX/issues/3",
            package=Package(
                name="onnxruntime-gpu",
                version="1.17.0",
                module="onnxruntime",
                library="onnxruntime/capi/libonnxruntime_providers_cuda.so",
                needs=("libcublasLt.so.11",),
            ),
            code="ED310",
            message="it fails when first used",
            words=f"libcublasLt.so.11: {NOT_FOUND}",
            remedy="onnxruntime-gpu>=1.19,<1.27",
        ),
        Thread(
            url="https://github.com/sniklaus/pytorch-pwc/issues/58",
            package=Package(
                name="cupy-cuda111", version="9.6.0", module="cupy", needs=("libcublas.so.11", "libnvrtc.so.11.1")
            ),
            code="ED304",
            message="needs `libcublas.so.11` of CUDA, which is not there",
            remedy="pip install cupy-cuda12x",
        ),
        Thread(
            url="https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1056",
            package=Package(
                name="bitsandbytes",
                version="0.42.0",
                library="bitsandbytes/libbitsandbytes_cuda112.so",
                needs=("libcudart.so.11.0",),
            ),
            code="ED216",
            message="has no library for CUDA 12.6",
        ),
        Thread(
            url="https://github.com/facebookresearch/pytorch3d/issues/318",
            package=Package(name="pytorch3d"),
            code="ED209",
            message="was built without its CUDA part",
            remedy="FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=8.6 ",
        ),
        Thread(
            url="https://github.com/open-mmlab/mmcv/issues/1142",
            package=Package(name="mmcv-full", version="1.3.7", library="mmcv/_ext.so"),
            code="ED209",
            message="was built without its CUDA part",
            remedy="FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=8.6 ",
        ),
        # The same is left where a plain install overwrote a good build: https://github.com/NVIDIA/apex/issues/447.
        Thread(
            url="https://github.com/NVIDIA/apex/issues/1755",
            package=Package(name="apex", version="0.1", library="-", sources=("apex/multi_tensor_apply/__init__.py",)),
            code="ED209",
            message="amp_C",
        ),
    ),
    TORCH_2_14: (
        Thread(
            url="https://github.com/Dao-AILab/flash-attention/issues/2118",
            package=replace(FLASH_ATTN, version="2.8.3", needs=("libc10.so", "libcudart.so.12")),
            code="ED304",
            message="needs CUDA 12 (`libcudart.so.12`), which is not there; torch 2.14.1+cu130 has CUDA 13.0",
        ),
        Thread(
            url="https://github.com/microsoft/onnxruntime/issues/21684",
            package=Package(
                name="onnxruntime-gpu",
                version="1.27.0",
                module="onnxruntime",
                library="onnxruntime/capi/libonnxruntime_providers_cuda.so",
                needs=("libcublasLt.so.13", "libcudnn.so.9"),
            ),
            code="",
        ),
    ),
}


@pytest.fixture(scope="module")
def findings_beside(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Finding]]:
    """What is reported of an environment with a hollow torch and the packages of its threads."""
    known: dict[str, list[Finding]] = {}

    def find(torch: str) -> list[Finding]:
        if torch not in known:
            python = make_venv(tmp_path_factory.mktemp("hollow") / "venv", "3.11")
            site_packages = unpack(torch, site_packages_of(python))
            for thread in HOLLOW[torch]:
                thread.package.install(site_packages)
            known[torch] = check(python)
        return known[torch]

    return find


@needs_compiler
@pytest.mark.parametrize(
    ("torch", "thread"), [(torch, thread) for torch, threads in HOLLOW.items() for thread in threads], ids=str
)
def test_what_goes_wrong_beside_a_torch_for_cuda(
    torch: str, thread: Thread, findings_beside: Callable[[str], list[Finding]]
) -> None:
    findings = about(thread.package, findings_beside(torch))

    assert [finding["code"] for finding in findings] == [thread.code][: bool(thread.code)]
    assert all(thread.message in finding["message"] for finding in findings)
    assert all(thread.words in text_of(finding) for finding in findings)
    assert all(thread.remedy in remedy_of(finding) for finding in findings)


def rename_torch(site_packages: Path, version: str) -> None:
    """Let a torch bear the number of another build."""
    rename(site_packages, "torch", version)
    digits = version.partition("+cu")[2]
    cuda = f"{digits[:-1]}.{digits[-1]}"
    (site_packages / "torch" / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")


def rename(site_packages: Path, name: str, version: str) -> None:
    [metadata] = site_packages.glob(f"{name}-*.dist-info")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    metadata.rename(site_packages / f"{name}-{version}.dist-info")


@needs_compiler
@pytest.mark.parametrize(
    ("version", "libraries", "codes"), [("2.6.0+cu124", TORCH_1_13, []), ("2.6.0+cu126", TORCH_2_7, ["ED303"])]
)
def test_builds_of_one_release_may_differ_in_their_abi(
    version: str, libraries: str, codes: list[str], tmp_path: Path
) -> None:
    """Symbols tell, and no number: https://github.com/pytorch/pytorch/issues/152790, flash-attention#1644."""
    python = make_venv(tmp_path / "venv", "3.11")
    site_packages = unpack(libraries, site_packages_of(python))
    rename_torch(site_packages, version)
    package = replace(
        FLASH_ATTN,
        version="2.7.4.post1",
        lacks="_ZN3c105ErrorC2ENS_14SourceLocationESs",
        needs=("libc10.so", "libc10_cuda.so"),
    )
    package.install(site_packages)
    findings = about(package, check(python))

    assert [finding["code"] for finding in findings] == codes
    assert all(f"torch {version} has the new one" in finding["message"] for finding in findings)


def test_bitsandbytes_needs_the_libraries_of_the_cuda_of_torch(tmp_path: Path) -> None:
    """Those of a newer CUDA do not help: https://github.com/bitsandbytes-foundation/bitsandbytes/issues/838."""
    python = make_venv(tmp_path / "venv", "3.11")
    site_packages = unpack(TORCH_2_14, site_packages_of(python))
    rename_torch(site_packages, "2.1.0+cu118")
    rename(site_packages, "bitsandbytes", "0.41.2")
    [finding] = [found for found in check(python) if found["message"].startswith("bitsandbytes ")]

    assert finding["code"] == "ED311"
    assert finding["message"].endswith("importing it fails where there is a GPU")
    assert "libbitsandbytes_cuda118.so: libcu" in text_of(finding)
    assert "CUDA Setup failed despite GPU being available" in text_of(finding)


def test_a_second_name_of_the_runtime_does_no_harm(tmp_path: Path) -> None:
    """bitsandbytes warned of it: https://github.com/bitsandbytes-foundation/bitsandbytes/issues/862."""
    python = make_venv(tmp_path / "venv", "3.11")
    site_packages = unpack(TORCH_2_14, site_packages_of(python))
    toolkit = tmp_path / "cuda-13.0" / "lib64"
    toolkit.mkdir(parents=True)
    shutil.copy(site_packages / "nvidia" / "cu13" / "lib" / "libcudart.so.13", toolkit)
    (toolkit / "libcudart.so").symlink_to("libcudart.so.13")

    assert check(python, LD_LIBRARY_PATH=str(toolkit)) == []


@needs_compiler
@pytest.mark.parametrize(("order", "codes"), [(("11.6", "10.2"), ["ED408"]), (("10.2", "11.6"), [])])
def test_nvrtc_takes_the_builtins_that_the_loader_finds_first(
    order: tuple[str, ...], codes: list[str], tmp_path: Path
) -> None:
    """Those of a second toolkit, for the CuPy of pip that was tried first: https://github.com/cupy/cupy/issues/7560."""
    python = make_venv(tmp_path / "venv", "3.11")
    package = Package(name="cupy-cuda102", version="12.0.0", module="cupy", library="-")
    package.install(site_packages_of(python))
    builtins = "libnvrtc-builtins.so"
    for release in order:
        toolkit = tmp_path / f"cuda-{release}"
        build_library(toolkit / f"{builtins}.{release}")
        (toolkit / builtins).symlink_to(f"{builtins}.{release}")
    asks = f'extern "C" const char name[] = "\\0{builtins}";'
    build_library(tmp_path / "cuda-10.2" / "libnvrtc.so.10.2", asks, options=("-Wl,-rpath,$ORIGIN,--enable-new-dtags",))
    findings = check(python, LD_LIBRARY_PATH=":".join(str(tmp_path / f"cuda-{release}") for release in order))

    assert [finding["code"] for finding in findings] == codes
    assert all("NVRTC of CUDA 10.2, which takes the built-in functions of CUDA 11.6" in text_of(f) for f in findings)
    assert all(f"={tmp_path}/cuda-10.2" in remedy_of(finding) for finding in findings)
