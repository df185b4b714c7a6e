"""What belongs to an installed torch on disk: version.py, metadata, extension module, libraries."""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envdoctor.model.facts import Distribution, Environment, MetadataKind, TorchFlavour
from envdoctor.model.versions import CudaVersion
from envdoctor.probes.foreign_files import find_files
from envdoctor.probes.import_path import read_constants

_PROJECTS = frozenset({"torch", "pytorch", "torch-nightly"})  # "pytorch" is conda's name
_LIBRARY_NAME = re.compile(r"\.so(\.[0-9.]+)?$")

# conda-forge keeps torch's libraries in the `lib` of the environment.
_CONDA_LIBRARIES = ("libc10*.so", "libcaffe2*.so", "libshm.so", "libtorch*.so")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFile:
    """What torch/version.py says; setup.py writes it when torch is built."""

    version: str
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None
    git_version: str | None = None  # since 1.1
    debug: bool | None = None
    tells_cuda: bool = False  # whether it has a line about CUDA at all
    problem: str = ""


def read_version_file(path: Path) -> VersionFile:
    """Read the constants that version.py assigns.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not Python, or does not assign `__version__`.

    """
    values = read_constants(path)
    version = values.get("__version__")
    if not isinstance(version, str):
        raise ValueError("it does not assign `__version__`")  # noqa: TRY004  about the text, not about an argument
    debug = values.get("debug")
    return VersionFile(
        version=version,
        cuda=_text(values.get("cuda")),
        hip=_text(values.get("hip")),
        xpu=_text(values.get("xpu")),
        git_version=_text(values.get("git_version")),
        debug=debug if isinstance(debug, bool) else None,
        tells_cuda="cuda" in values,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class TorchFiles:
    """One folder `torch` with what surrounds it; each part is read once, when it is first asked for."""

    root: Path
    environment: Environment
    installed: tuple[Distribution, ...]

    @cached_property
    def owners(self) -> tuple[Distribution, ...]:
        """The distributions that claim this folder, the most telling first."""
        claims = [d for d in self.installed if d.name in _PROJECTS and self._is_claimed_by(d)]
        return tuple(sorted(claims, key=lambda d: (d.metadata_kind is MetadataKind.CONDA_META, bool(d.problems))))

    def _is_claimed_by(self, distribution: Distribution) -> bool:
        if distribution.metadata_kind is MetadataKind.LEFTOVER:
            return False
        if distribution.metadata_kind is MetadataKind.CONDA_META:
            return self.root.is_relative_to(self.environment.prefix)
        if distribution.editable_root:
            return self.root.is_relative_to(distribution.editable_root)
        return self.root.parent == Path(distribution.location)

    @property
    def installed_by(self) -> str:
        """What installed it, as INSTALLER says; conda's old packages have no such file."""
        named = next((owner.installer for owner in self.owners if owner.installer), "")
        by_conda = any(owner.metadata_kind is MetadataKind.CONDA_META for owner in self.owners)
        return named or ("conda" if by_conda else "")

    @cached_property
    def version_file(self) -> VersionFile:
        """What version.py says, or for want of it the metadata."""
        try:
            return read_version_file(self.root / "version.py")
        except (OSError, ValueError) as exc:
            problem = f"`version.py` cannot be read: {exc.strerror if isinstance(exc, OSError) else exc}"
        versions = (owner.version for owner in self.owners)
        version = next((version for version in versions if isinstance(version, str)), "")
        return VersionFile(version=version, problem=problem)

    @cached_property
    def libraries(self) -> dict[str, Path]:
        """The shared libraries of torch, by file name."""
        own = {path.name: path for path in find_files(self.root / "lib", "*.so*") if _LIBRARY_NAME.search(path.name)}
        if self.environment.kind != "conda":
            return own
        shared = (path for pattern in _CONDA_LIBRARIES for path in find_files(self._conda_folder, pattern))
        return {path.name: path for path in shared} | own

    @property
    def _conda_folder(self) -> Path:
        return Path(self.environment.prefix) / "lib"

    @cached_property
    def extension_modules(self) -> tuple[Path, ...]:
        """The builds of the extension module `torch._C`: usually one."""
        return tuple(find_files(self.root, "_C.*so"))

    @property
    def suitable_modules(self) -> tuple[Path, ...]:
        """Those that the examined interpreter imports."""
        names = {f"_C{suffix}" for suffix in self.environment.extension_suffixes}
        return tuple(module for module in self.extension_modules if not names or module.name in names)

    def find_library(self, name: str) -> Path | None:
        """Where a needed library lies, as far as it comes with torch or with the nvidia-* distributions."""
        if own := self.libraries.get(name):
            return own
        candidates = (folder / name for folder in self._other_folders)
        return next((candidate for candidate in candidates if os.path.isfile(candidate)), None)

    @cached_property
    def _other_folders(self) -> tuple[Path, ...]:
        entries = [Path(entry.path) for entry in self.environment.search_path]
        nvidia = [folder for entry in entries for folder in find_files(entry, "nvidia/*/lib")]
        return (*nvidia, self._conda_folder) if self.environment.kind == "conda" else tuple(nvidia)

    @cached_property
    def flavour(self) -> TorchFlavour:
        """What version.py says; where it is silent, what the names of the libraries say."""
        stated = self.version_file
        if stated.hip or "libtorch_hip.so" in self.libraries:
            return TorchFlavour.ROCM
        if stated.xpu or "libtorch_xpu.so" in self.libraries:
            return TorchFlavour.XPU
        if stated.tells_cuda:
            return TorchFlavour.CUDA if stated.cuda else TorchFlavour.CPU
        # libc10_cuda.so: in every build with CUDA since 1.0.
        return TorchFlavour.CUDA if "libc10_cuda.so" in self.libraries else TorchFlavour.CPU

    @property
    def build_cuda_version(self) -> CudaVersion | None:
        """The CUDA that it was built with; None also where nothing says it."""
        if self.flavour is not TorchFlavour.CUDA:
            return None
        stated = self.version_file.cuda
        if stated is None:
            tag = re.search(r"\+cu(\d{1,2})(\d)$", self.version_file.version)
            return CudaVersion(int(tag[1]), int(tag[2])) if tag else None
        try:
            return CudaVersion.parse(stated)
        except ValueError:
            return None
