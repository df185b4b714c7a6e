"""What the companions of torch were built for, from their own files."""

import json
from pathlib import Path
from typing import Any

import pytest

from envdoctor.model.facts import Companion, CudaCheck, Distribution, SearchEntry, TorchFlavour, Unavailable
from envdoctor.probes.companions import find_companions
from tests.builders import a_distribution, an_environment

CUDA, CPU, ROCM = TorchFlavour.CUDA, TorchFlavour.CPU, TorchFlavour.ROCM

# As setup.py of xformers 0.0.25 writes it.
CPP_LIB = {
    "version": {"cuda": 1201, "hip": None, "torch": "2.2.1+cu121", "python": "3.11.8", "flash": "v2.5.6"},
    "env": {"TORCH_CUDA_ARCH_LIST": "5.0+PTX 6.0 6.1 7.0 7.5 8.0+PTX 9.0", "NVCC_FLAGS": None},
}

# The comparisons of torchvision 0.15.2 and 0.16.0, and of torchaudio 2.1.0.
TORCHVISION_015 = """
        if t_major != tv_major or t_minor != tv_minor:
            raise RuntimeError(
                "Detected that PyTorch and torchvision were compiled with different CUDA versions. "
"""
TORCHVISION_016 = """
        if t_major != tv_major:
            raise RuntimeError(
                "Detected that PyTorch and torchvision were compiled with different CUDA major versions. "
"""
TORCHAUDIO_21 = """
        if ta_version != t_version:
            raise RuntimeError(
                "Detected that PyTorch and TorchAudio were compiled with different CUDA versions. "
"""


def find(site: Path, *distributions: Distribution) -> tuple[Companion, ...]:
    environment = an_environment(search_path=(SearchEntry(path=str(site), origin="site-packages"),))
    found = find_companions(environment, distributions)
    assert isinstance(found, tuple)
    return found


def write(site: Path, **files: str) -> Path:
    """Fill a site-packages; in the names of files `__` stands for a slash, and `_py` ends what is Python."""
    for name, text in files.items():
        path = site / (name.removesuffix("_py").replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    return site


# --- torchvision, torchaudio -------------------------------------------------------------------------------------


def test_the_code_of_torchvision_tells_the_flavour_that_its_metadata_leave_out(tmp_path: Path) -> None:
    write(tmp_path, torchvision__version_py="__version__ = '0.16.2+cu118'\ngit_version = 'c6f39786'\n")

    [companion] = find(tmp_path, a_distribution("torchvision", "0.16.2"))

    assert companion == Companion(
        distribution="torchvision",
        version="0.16.2+cu118",
        source="torchvision/version.py",
        torch_release="",
        cuda="11.8",
        flavour=CUDA,
        cuda_check=CudaCheck.NONE,
    )


@pytest.mark.parametrize(
    ("version", "cuda", "flavour"),
    [
        ("0.5.0+cu92", "9.2", CUDA),
        ("0.8.2+cu110", "11.0", CUDA),
        ("0.16.2+cpu", "", CPU),
        ("0.16.0+rocm5.6", "", ROCM),
        ("0.8.2", "", None),
        ("0.16.0a0+47cd5ea", "", None),
    ],
)
def test_a_local_version_tells_the_flavour(
    tmp_path: Path, version: str, cuda: str, flavour: TorchFlavour | None
) -> None:
    write(tmp_path, torchvision__version_py=f"__version__ = {version!r}\n")

    [companion] = find(tmp_path, a_distribution("torchvision", version.partition("+")[0]))

    assert (companion.cuda, companion.flavour) == (cuda, flavour)


@pytest.mark.parametrize(
    ("build", "cuda", "flavour"),
    [("py310_cu118", "11.8", CUDA), ("py310_cpu", "", CPU), ("cuda112py310h51fe464_200", "11.2", CUDA)],
)
def test_conda_tells_the_flavour_in_its_build_string(
    tmp_path: Path, build: str, cuda: str, flavour: TorchFlavour
) -> None:
    write(tmp_path, torchvision__version_py="__version__ = '0.15.2'\n")

    [companion] = find(tmp_path, a_distribution("torchvision", "0.15.2", installer="conda", build=build))

    assert (companion.cuda, companion.flavour, companion.source) == (cuda, flavour, "conda-meta")


@pytest.mark.parametrize(
    ("package", "module", "text", "check"),
    [
        ("torchvision", "torchvision__extension_py", TORCHVISION_015, CudaCheck.MINOR),
        ("torchvision", "torchvision__extension_py", TORCHVISION_016, CudaCheck.MAJOR),
        ("torchaudio", "torchaudio___extension__utils_py", TORCHAUDIO_21, CudaCheck.MINOR),
        ("torchaudio", "torchaudio___extension_py", TORCHAUDIO_21, CudaCheck.MINOR),  # 0.13
        ("torchvision", "torchvision__extension_py", "_HAS_OPS = False\n", CudaCheck.NONE),
    ],
)
def test_the_installed_code_tells_what_it_refuses(
    tmp_path: Path, package: str, module: str, text: str, check: CudaCheck
) -> None:
    write(tmp_path, **{f"{package}__version_py": "__version__ = '1.0'\n", module: text})

    [companion] = find(tmp_path, a_distribution(package, "1.0"))

    assert companion.cuda_check is check


# --- xformers ----------------------------------------------------------------------------------------------------


def write_xformers(site: Path, content: str) -> Path:
    write(site, xformers__info_py="")
    (site / "xformers" / "cpp_lib.json").write_text(content)
    return site


def test_xformers_tells_its_build(tmp_path: Path) -> None:
    write_xformers(tmp_path, json.dumps(CPP_LIB))

    [companion] = find(tmp_path, a_distribution("xformers", "0.0.25"))

    assert (companion.torch_release, companion.cuda, companion.flavour) == ("2.2.1", "12.1", CUDA)
    assert companion.source == "xformers/cpp_lib.json"


@pytest.mark.parametrize(("cuda", "hip", "flavour"), [(None, None, CPU), (None, "6.0", ROCM), (-1, None, CPU)])
def test_xformers_without_cuda(tmp_path: Path, cuda: Any, hip: Any, flavour: TorchFlavour) -> None:
    write_xformers(tmp_path, json.dumps({"version": {"cuda": cuda, "hip": hip, "torch": "2.2.1"}}))

    [companion] = find(tmp_path, a_distribution("xformers", "0.0.25"))

    assert (companion.cuda, companion.flavour) == ("", flavour)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1}', '{"version": {"torch": 2}}', "\0", "[" * 100000])
def test_a_damaged_note_of_xformers_leaves_its_version_to_tell(tmp_path: Path, content: str) -> None:
    write_xformers(tmp_path, content)
    [companion] = find(tmp_path, a_distribution("xformers", "0.0.25+cu118", requires=("torch==2.2.1",)))

    assert (companion.cuda, companion.source) == ("11.8", "xformers-0.0.25+cu118.dist-info")


# --- marks of builders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "torch", "cuda", "flavour"),
    [
        ("torch-scatter", "2.1.1+pt113cu117", "1.13", "11.7", CUDA),
        ("torch-scatter", "2.1.2+pt210cu126", "2.10", "12.6", CUDA),
        ("torch-scatter", "2.1.2+pt20cpu", "2.0", "", CPU),
        ("pytorch3d", "0.7.8+pt2.4.1cu121", "2.4.1", "12.1", CUDA),
        ("flash-attn", "2.7.4.post1+cu12torch2.6cxx11abiFALSE", "2.6", "12", CUDA),
        ("causal-conv1d", "1.1.1+cu118torch2.1cxx11abiTRUE", "2.1", "11.8", CUDA),
        ("natten", "0.17.1+torch230cu121", "2.3.0", "12.1", CUDA),
        ("natten", "0.21.5+torch2100cu128", "2.10.0", "12.8", CUDA),
        ("exllamav2", "0.1.5+cu121.torch2.3.1", "2.3.1", "12.1", CUDA),
        ("flash-attn", "2.8.3+cu.12.8.torch.2.11", "2.11", "12.8", CUDA),
    ],
)
def test_a_local_version_tells_the_torch(
    tmp_path: Path, name: str, version: str, torch: str, cuda: str, flavour: TorchFlavour
) -> None:
    [companion] = find(tmp_path, a_distribution(name, version))

    assert (companion.torch_release, companion.cuda, companion.flavour) == (torch, cuda, flavour)


def test_the_name_of_the_wheel_tells_what_its_metadata_leave_out(tmp_path: Path) -> None:
    url = (
        "https://github.com/Dao-AILab/flash-attention/releases/download/v2.6.3/"
        "flash_attn-2.6.3%2Bcu123torch2.4cxx11abiFALSE-cp310-cp310-linux_x86_64.whl#sha256=0"
    )
    [companion] = find(tmp_path, a_distribution("flash-attn", "2.6.3", requires=("torch", "einops"), direct_url=url))

    assert (companion.torch_release, companion.cuda, companion.source) == ("2.4", "12.3", "direct_url.json")


def test_a_flavour_alone_counts_for_what_needs_torch(tmp_path: Path) -> None:
    [companion] = find(tmp_path, a_distribution("auto-gptq", "0.7.1+cu118", requires=("torch>=1.13.0", "rouge")))

    assert companion.distribution == "auto-gptq"
    assert companion.cuda == "11.8"


@pytest.mark.parametrize(
    ("name", "version", "requires"),
    [
        ("jaxlib", "0.4.23+cuda12.cudnn89", ("numpy>=1.22",)),
        ("llama-cpp-python", "0.2.90+cu121", ("numpy>=1.20.0",)),
        ("cupy-cuda12x", "13.6.0", ("numpy",)),
        ("my-lab", "1.0+git.cpu2", ("torch-geometric",)),
        ("timm", "1.0.9", ("torch",)),
        ("detectron2", "0.6+g5b72c27ae39f99db75d43f18fd1312e1ea934e60", ("torch",)),
    ],
)
def test_others_are_no_companions(tmp_path: Path, name: str, version: str, requires: tuple[str, ...]) -> None:
    assert find(tmp_path, a_distribution(name, version, requires=requires)) == ()


def test_what_is_hidden_by_another_is_no_companion(tmp_path: Path) -> None:
    assert find(tmp_path, a_distribution("torch-scatter", "2.1.1+pt113cu117", shadowed_by="/x")) == ()


@pytest.mark.parametrize("text", ["", "\0", "__version__ = 1\n", "def", "version = '0.15'\n"])
def test_an_odd_version_file_tells_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path, torchvision__version_py=text)

    assert find(tmp_path, a_distribution("torchvision", "0.16.2")) == ()


def test_without_distributions_there_is_a_reason(tmp_path: Path) -> None:
    reason = Unavailable("locked")

    assert find_companions(an_environment(prefix=str(tmp_path)), reason) == reason
