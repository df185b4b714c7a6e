"""Extensions of projects with CUDA code that were built without it: they install, can be imported, and fail later."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.tables import CudaPartRow
from envdoctor.model.facts import (
    Absence,
    CpuOnlyExtension,
    Distribution,
    Environment,
    LibraryRole,
    MetadataKind,
    TorchBuild,
    TorchFlavour,
    Unavailable,
)
from envdoctor.probes.device_code import read_device_code
from envdoctor.probes.foreign_files import as_file_name, find_files, read_file

_INSTALLED = frozenset({MetadataKind.DIST_INFO, MetadataKind.EGG_INFO, MetadataKind.EGG_LINK})
_FOR_TORCH = re.compile(r"lib(torch|c10)(_\w+)?\.so")
_FOR_CUDA = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cudnn|cufft|cupti|curand|cusolver|cusparse|nvrtc|c10_cuda|torch_cuda)\w*[-.]"
)
_CUDA_SOURCE = re.compile(r"\.cuh?")
# Some projects ship CUDA sources to compile them where they run.
_COMPILES_LATER = re.compile(
    rb"load_inline|cpp_extension(\.load|\s+import\b[^\n]{0,200}\bload)\b|nvrtc|RawKernel|RawModule|OpBuilder"
)


def find_cpu_only_extensions(
    environment: Environment,
    distributions: tuple[Distribution, ...] | Unavailable,
    torch: TorchBuild | Unavailable,
    kb: KnowledgeBase,
) -> tuple[CpuOnlyExtension, ...] | Unavailable:
    """Find extensions without their CUDA part: by the table of projects, and by the CUDA sources that others list."""
    if isinstance(torch, Unavailable):
        return torch
    if torch.flavour is not TorchFlavour.CUDA:
        reason = f"torch is a {torch.flavour.value} build: extensions for it have no CUDA part"
        return Unavailable(reason, Absence.NOT_APPLICABLE)
    if isinstance(distributions, Unavailable):
        return distributions
    rows = {name: row for row in kb.cuda_parts() for name in row.distributions}
    folders = tuple(Path(entry.path) for entry in environment.search_path)
    installed = [each for each in distributions if each.metadata_kind in _INSTALLED and not each.shadowed_by]
    found = (
        _judge_by_table(each, rows[each.name], folders) if each.name in rows else _judge_by_sources(each)
        for each in installed
        if each.name != "torch"
    )
    return tuple(filter(None, found))


# --- projects of the table ---------------------------------------------------------------------------------------


def _judge_by_table(distribution: Distribution, row: CudaPartRow, folders: tuple[Path, ...]) -> CpuOnlyExtension | None:
    modules = list(_find(folders, (f"{module}.*so" for module in row.modules)))
    if modules:
        libraries = [_read(module) for module in modules]
        if any(library.may_have_cuda_part for library in libraries):
            return None
        return CpuOnlyExtension(
            distribution=distribution.name,
            library=str(modules[0]),
            expected="device code",
            evidence=str(libraries[0]),
        )
    if sign := next(_find(folders, filter(None, (row.beside,))), None):
        names = " or ".join(f"`{module.replace('/', '.')}`" for module in row.modules)
        return CpuOnlyExtension(
            distribution=distribution.name,
            library=str(sign.parent),
            expected=f"module {names}",
            evidence=f"`{sign.name}` is there, and no such module",
        )
    return None


def _find(folders: Iterable[Path], patterns: Iterable[str]) -> Iterator[Path]:
    """Yield what lies in the first folder of the search path that has anything of these patterns."""
    wanted = tuple(patterns)
    for folder in folders:
        if found := [path for pattern in wanted for path in find_files(folder, pattern)]:
            yield from found
            return


# --- projects that list CUDA sources -----------------------------------------------------------------------------


def _judge_by_sources(distribution: Distribution) -> CpuOnlyExtension | None:
    listing = _read_listing(distribution)
    if listing is None:
        return None
    sources = [name for name in listing.names if _CUDA_SOURCE.fullmatch(os.path.splitext(name)[1])]
    if not sources:
        return None
    libraries = [_read(path) for path in listing.libraries()]
    extension = next((library for library in libraries if library.is_for_torch), None)
    if extension is None or any(library.may_have_cuda_part for library in libraries) or listing.compiles_later():
        return None
    return CpuOnlyExtension(
        distribution=distribution.name,
        library=str(extension.path),
        expected="device code",
        evidence=f"{extension}; `{listing.path.name}` lists `{sources[0]}`",
    )


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of a distribution, as its metadata list them."""

    path: Path
    root: Path
    names: tuple[str, ...]

    def libraries(self) -> Iterator[Path]:
        """Yield its shared libraries; a list of sources does not name them, but the folders where they are built."""
        if self.path.name != "SOURCES.txt":
            yield from (self.root / name for name in self.names if name.endswith(".so"))
            return
        folders = {self.root} | {(self.root / name).parent for name in self.names if name.endswith(".py")}
        yield from (library for folder in sorted(folders) for library in find_files(folder, "*.so"))

    def compiles_later(self) -> bool:
        """Whether its modules compile code when they run."""
        modules = (self.root / name for name in self.names if name.endswith(".py"))
        return any(_COMPILES_LATER.search(_read_bytes(module)) for module in modules)


def _read_listing(distribution: Distribution) -> _Listing | None:
    metadata = Path(distribution.metadata_path)
    root = Path(distribution.editable_root or distribution.location)
    candidates = [(metadata / "SOURCES.txt", root)]
    if distribution.metadata_kind is MetadataKind.DIST_INFO:
        editable = find_files(root, "*.egg-info/SOURCES.txt") if distribution.editable_root else []
        candidates = [(path, root) for path in editable] or [(metadata / "RECORD", root)]
    for path, folder in candidates:
        # Lists are long, and few name a source: a search of the bytes is far quicker than a look at every line.
        if b".cu" in (content := _read_bytes(path)):
            lines = as_file_name(content.decode("utf-8", "surrogateescape")).splitlines()
            return _Listing(path, folder, tuple(line.partition(",")[0] for line in lines))
    return None


def _read_bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError:
        return b""


# --- one library -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Library:
    path: Path
    needed: tuple[str, ...]
    may_have_cuda_part: bool  # it has device code, calls CUDA, or cannot be read to the end

    @property
    def is_for_torch(self) -> bool:
        return any(map(_FOR_TORCH.match, self.needed))

    def __str__(self) -> str:
        needed = ", ".join(filter(_FOR_TORCH.match, self.needed)) or "no library of torch"
        return f"no device code, no need of a CUDA library (needs {needed})"


def _read(path: Path) -> _Library:
    try:
        with open_file(path) as reader:
            needed = parse_elf(reader).needed
    except (OSError, BinaryError):
        return _Library(path, (), may_have_cuda_part=True)
    code = read_device_code(path, role=LibraryRole.EXTENSION)
    has_code = bool(code.containers or code.has_hip_code or code.unreadable)
    return _Library(path, needed, may_have_cuda_part=has_code or any(map(_FOR_CUDA.match, needed)))
