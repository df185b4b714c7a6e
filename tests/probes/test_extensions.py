"""Extensions without their CUDA part: libraries of a real compiler in the arrangement of known projects."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import (
    Absence,
    CpuOnlyExtension,
    Distribution,
    MetadataKind,
    SearchEntry,
    TorchBuild,
    Unavailable,
)
from envdoctor.probes.extensions import find_cpu_only_extensions
from tests.builders import NO_TORCH, a_distribution, a_torch, an_environment
from tests.compiler import build_library, needs_compiler

# Made by nvcc: see fixtures/binaries/build.sh.
WITH_DEVICE_CODE = Path(__file__).parents[2] / "fixtures" / "binaries" / "rdc" / "libnordc.so"

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One library of each kind, to be copied to where it is wanted."""
    folder = tmp_path_factory.mktemp("libraries")
    torch = build_library(folder / "libtorch_cpu.so")
    torch_cuda = build_library(folder / "libc10_cuda.so")
    return {
        "CPU extension": build_library(folder / "cpu.so", needs=[torch]),
        "calls CUDA": build_library(folder / "host.so", needs=[torch, torch_cuda]),
        "device code": WITH_DEVICE_CODE,
        "no extension": build_library(folder / "plain.so"),
    }


Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path, libraries: dict[str, Path]) -> Put:
    def put_library(place: str, kind: str = "CPU extension") -> Path:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(libraries[kind], path)
        return path

    return put_library


Find = Callable[[Distribution], tuple[CpuOnlyExtension, ...]]


@pytest.fixture
def find(tmp_path: Path, kb: KnowledgeBase) -> Find:
    environment = an_environment(search_path=(SearchEntry(path=str(tmp_path), origin="site-packages"),))

    def find_extensions(distribution: Distribution) -> tuple[CpuOnlyExtension, ...]:
        found = find_cpu_only_extensions(environment, (distribution,), a_torch(), kb)
        assert isinstance(found, tuple)
        return found

    return find_extensions


def install(site: Path, name: str, files: str = "", **changes: object) -> Distribution:
    """A distribution with a list of its files."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "RECORD").write_text("".join(f"{file},sha256=abc,1\n" for file in files.split()))
    return a_distribution(name, "1.0", location=str(site), metadata_path=str(metadata), **changes)


# --- projects of the table ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("torchvision", "torchvision/_C.so"),
        ("detectron2", "detectron2/_C.cpython-38-x86_64-linux-gnu.so"),
        ("pytorch3d", "pytorch3d/_C.cpython-310-x86_64-linux-gnu.so"),
        ("mmcv-full", "mmcv/_ext.cpython-37m-x86_64-linux-gnu.so"),
        ("xformers", "xformers/_C.so"),
    ],
)
def test_a_module_without_cuda_is_found(tmp_path: Path, put: Put, find: Find, name: str, place: str) -> None:
    library = put(place)

    assert find(install(tmp_path, name)) == (
        CpuOnlyExtension(
            distribution=name,
            library=str(library),
            expected="device code",
            evidence="no device code, no need of a CUDA library (needs libtorch_cpu.so)",
        ),
    )


@pytest.mark.parametrize("kind", ["device code", "calls CUDA"])
def test_a_module_with_cuda_is_in_order(tmp_path: Path, put: Put, find: Find, kind: str) -> None:
    put("mmcv/_ext.cpython-38-x86_64-linux-gnu.so", kind)

    assert find(install(tmp_path, "mmcv")) == ()


def test_one_of_several_modules_with_cuda_is_enough(tmp_path: Path, put: Put, find: Find) -> None:
    put("torchvision/_C.so")
    put("torchvision/_C_stable.so", "device code")

    assert find(install(tmp_path, "torchvision")) == ()


def test_a_library_that_cannot_be_read_proves_nothing(tmp_path: Path, put: Put, find: Find) -> None:
    library = put("mmcv/_ext.so")
    library.write_bytes(library.read_bytes()[:3000])

    assert find(install(tmp_path, "mmcv")) == ()


@pytest.mark.parametrize(
    ("name", "sign", "expected"),
    [
        ("apex", "apex/multi_tensor_apply/__init__.py", "module `amp_C` or `fused_layer_norm_cuda`"),
        ("torch-scatter", "torch_scatter/_scatter_cpu.so", "module `torch_scatter._scatter_cuda`"),
        ("torch-cluster", "torch_cluster/_fps_cpu.so", "module `torch_cluster._fps_cuda`"),
        ("flash-attn", "flash_attn/flash_attn_interface.py", "module `flash_attn_2_cuda` or `flash_attn_cuda`"),
    ],
)
def test_a_missing_module_is_found(tmp_path: Path, put: Put, find: Find, name: str, sign: str, expected: str) -> None:
    put(sign)

    [extension] = find(install(tmp_path, name))

    assert (extension.expected, extension.library) == (expected, str((tmp_path / sign).parent))
    assert Path(sign).name in extension.evidence


@pytest.mark.parametrize(
    ("name", "sign", "module"),
    [
        ("apex", "apex/multi_tensor_apply/__init__.py", "amp_C.cpython-310-x86_64-linux-gnu.so"),
        ("torch-scatter", "torch_scatter/_scatter_cpu.so", "torch_scatter/_scatter_cuda.so"),
        ("flash-attn", "flash_attn/flash_attn_interface.py", "flash_attn_cuda.cpython-38-x86_64-linux-gnu.so"),
    ],
)
def test_a_module_that_is_there_is_not_missing(
    tmp_path: Path, put: Put, find: Find, name: str, sign: str, module: str
) -> None:
    put(sign)
    put(module, "device code")

    assert find(install(tmp_path, name)) == ()


@pytest.mark.parametrize(
    ("name", "place"),
    [("apex", "apex/__init__.py"), ("mmcv", "mmcv/__init__.py"), ("torchvision", "torchvision/__init__.py")],
    ids=["another project of that name", "mmcv without operators", "a module that is missing altogether"],
)
def test_absence_alone_proves_nothing(tmp_path: Path, put: Put, find: Find, name: str, place: str) -> None:
    put(place)

    assert find(install(tmp_path, name)) == ()


# --- projects that list CUDA sources -----------------------------------------------------------------------------

SOURCES = "ops/__init__.py ops/src/nms.cpp ops/src/nms_kernel.cu ops/_C.so"


def test_listed_cuda_sources_beside_a_cpu_extension_are_found(tmp_path: Path, put: Put, find: Find) -> None:
    library = put("ops/_C.so")

    [extension] = find(install(tmp_path, "ops", SOURCES))

    assert (extension.distribution, extension.library) == ("ops", str(library))
    assert extension.evidence.endswith("`RECORD` lists `ops/src/nms_kernel.cu`")


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (SOURCES, "device code"),
        (SOURCES, "calls CUDA"),
        (SOURCES, "no extension"),
        (SOURCES.replace("nms_kernel.cu", "nms_kernel.cpp"), "CPU extension"),
        (SOURCES.replace("nms_kernel.cu", "cursor.cut"), "CPU extension"),
        (SOURCES.replace("ops/_C.so", ""), "CPU extension"),
    ],
)
def test_other_projects_are_silent(tmp_path: Path, put: Put, find: Find, files: str, kind: str) -> None:
    put("ops/_C.so", kind)

    assert find(install(tmp_path, "ops", files)) == ()


def test_another_library_of_the_project_may_hold_the_code(tmp_path: Path, put: Put, find: Find) -> None:
    put("ops/_C.so")
    put("ops.libs/libkernels.so", "device code")

    assert find(install(tmp_path, "ops", f"{SOURCES} ops.libs/libkernels.so")) == ()


@pytest.mark.parametrize(
    "text",
    [
        "from torch.utils.cpp_extension import load\n",
        "module = torch.utils.cpp_extension.load_inline(name='x')\n",
        "from .builder import OpBuilder\n",
        "kernel = cupy.RawKernel(code, 'f')\n",
    ],
)
def test_sources_that_are_compiled_later_prove_nothing(tmp_path: Path, put: Put, find: Find, text: str) -> None:
    put("ops/_C.so")
    (tmp_path / "ops" / "__init__.py").write_text(text)

    assert find(install(tmp_path, "ops", SOURCES)) == ()


def test_a_checkout_lists_its_sources_itself(tmp_path: Path, put: Put, find: Find) -> None:
    library = put("repo/ops/_C.cpython-38-x86_64-linux-gnu.so")
    metadata = tmp_path / "repo" / "ops.egg-info"
    metadata.mkdir()
    (metadata / "SOURCES.txt").write_text("setup.py\nops/__init__.py\nops/src/nms.cu\n")
    develop = a_distribution(
        "ops",
        "1.0",
        metadata_kind=MetadataKind.EGG_LINK,
        metadata_path=str(metadata),
        location=str(tmp_path / "repo"),
        editable_root=str(tmp_path / "repo"),
    )
    editable = install(tmp_path, "ops", "__editable__.ops.pth", editable_root=str(tmp_path / "repo"))

    for distribution in (develop, editable):
        [extension] = find(distribution)
        assert extension.library == str(library)


# --- where there is nothing to judge -----------------------------------------------------------------------------


@pytest.mark.parametrize("torch", [NO_TORCH, a_torch("2.1.2+cpu"), a_torch("2.1.2+rocm5.6")])
def test_beside_another_torch_or_none_there_is_no_cuda_part_to_miss(
    tmp_path: Path, put: Put, kb: KnowledgeBase, torch: TorchBuild | Unavailable
) -> None:
    put("torchvision/_C.so")
    environment = an_environment(search_path=(SearchEntry(path=str(tmp_path), origin="site-packages"),))

    found = find_cpu_only_extensions(environment, (install(tmp_path, "torchvision"),), torch, kb)

    assert isinstance(found, Unavailable)
    assert found.absence is Absence.NOT_APPLICABLE


def test_without_distributions_the_reason_is_theirs(kb: KnowledgeBase) -> None:
    unreadable = Unavailable("the disk is gone")

    assert find_cpu_only_extensions(an_environment(), unreadable, a_torch(), kb) == unreadable


def test_what_is_shadowed_is_not_judged(tmp_path: Path, put: Put, find: Find) -> None:
    put("mmcv/_ext.so")

    assert find(install(tmp_path, "mmcv", shadowed_by="/home/user/.local/mmcv-2.0.dist-info")) == ()
