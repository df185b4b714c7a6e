"""What is true of the world, as data: TOML tables, and the questions that rules ask of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from envdoctor.kb.gpu_names import GpuModel, GpuNames
from envdoctor.kb.reader import read_document, read_rows
from envdoctor.kb.tables import (
    ArchitectureRow,
    ChipRow,
    CompanionPinRow,
    CudaPartRow,
    CudaWheelRow,
    DriverBranchRow,
    GpuAliasRow,
    GpuRow,
    HeadlessRow,
    LoadEffectRow,
    MinimumDriverRow,
    OwnBuildRow,
    PackageNeedRow,
    PtxRow,
    Row,
    SourceOnlyRow,
    SymptomRow,
    SystemLibraryRow,
    ToolkitRow,
    TorchBuildsRow,
    TorchIndexRow,
    TorchReleaseRow,
    TorchSymbolsRow,
)
from envdoctor.kb.torch_builds import TorchBuildRow, expand_builds
from envdoctor.model.arch import Arch, CodeKind, ComputeCapability
from envdoctor.model.device_code import ContainerGroup
from envdoctor.model.versions import CudaVersion, DriverRelease, PtxIsaVersion

if TYPE_CHECKING:
    from envdoctor.kb.figures import GpuFiguresRow, MeasuredRow, RateRow, TrainingRow
    from envdoctor.kb.torch_symbols import TorchReleases, TorchSymbols

R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many kernel containers run natively on a device, only through PTX, or not at all."""

    native: int
    jit: int
    none: int


class KnowledgeBase:
    """The tables of one folder, each read when it is first asked for, and the answers that follow from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._documents: dict[str, dict[str, Any]] = {}

    def _rows(self, file: str, table: str, kind: type[R]) -> tuple[R, ...]:
        if file not in self._documents:
            self._documents[file] = read_document(self._folder / file)
        return read_rows(self._documents[file], file, table, kind)

    # --- tables --------------------------------------------------------------------------------------------------

    @cached_property
    def architectures(self) -> Mapping[ComputeCapability, ArchitectureRow]:
        """Every compute capability that NVIDIA lists, in order."""
        return {row.capability: row for row in self._rows("architectures.toml", "architecture", ArchitectureRow)}

    @cached_property
    def toolkits(self) -> Mapping[CudaVersion, ToolkitRow]:
        """The CUDA toolkits, oldest first."""
        return {row.version: row for row in self._rows("cuda.toml", "toolkit", ToolkitRow)}

    @cached_property
    def ptx_versions(self) -> tuple[PtxRow, ...]:
        """The versions of PTX, oldest first."""
        return self._rows("cuda.toml", "ptx", PtxRow)

    @cached_property
    def minimum_drivers(self) -> tuple[MinimumDriverRow, ...]:
        """The oldest driver of CUDA versions and of their families, oldest first."""
        return self._rows("cuda.toml", "minimum_driver", MinimumDriverRow)

    @cached_property
    def driver_branches(self) -> Mapping[int, DriverBranchRow]:
        """The branches of the driver, oldest first."""
        return {row.branch: row for row in self._rows("cuda.toml", "driver_branch", DriverBranchRow)}

    @cached_property
    def gpus(self) -> tuple[GpuRow, ...]:
        """The products that can be named."""
        return self._rows("gpus.toml", "gpu", GpuRow)

    @cached_property
    def gpu_aliases(self) -> tuple[GpuAliasRow, ...]:
        """What clouds and rental sites call their machines."""
        return self._rows("gpus.toml", "alias", GpuAliasRow)

    @cached_property
    def chips(self) -> tuple[ChipRow, ...]:
        """The chips and the PCI device numbers of their boards."""
        return self._rows("chips.toml", "chip", ChipRow)

    @cached_property
    def gpu_figures(self) -> "tuple[GpuFiguresRow, ...]":
        """What is published about products."""
        from envdoctor.kb.figures import GpuFiguresRow

        return self._rows("gpu_figures.toml", "figures", GpuFiguresRow)

    @cached_property
    def rates(self) -> "tuple[RateRow, ...]":
        """What a multiprocessor does per clock."""
        from envdoctor.kb.figures import RateRow

        return self._rows("gpu_figures.toml", "rate", RateRow)

    @cached_property
    def measured(self) -> "tuple[MeasuredRow, ...]":
        """What independent people measured."""
        from envdoctor.kb.figures import MeasuredRow

        return self._rows("gpu_figures.toml", "measured", MeasuredRow)

    @cached_property
    def training(self) -> "tuple[TrainingRow, ...]":
        """How fast products trained."""
        from envdoctor.kb.figures import TrainingRow

        return self._rows("gpu_figures.toml", "training", TrainingRow)

    @cached_property
    def torch_releases(self) -> Mapping[str, TorchReleaseRow]:
        """The releases of torch by version, oldest first."""
        return {row.version: row for row in self._rows("torch.toml", "release", TorchReleaseRow)}

    @cached_property
    def torch_build_groups(self) -> tuple[TorchBuildsRow, ...]:
        """The builds of torch as the table groups them; see `torch_builds` for one row per build."""
        return self._rows("torch.toml", "builds", TorchBuildsRow)

    @cached_property
    def torch_indexes(self) -> tuple[TorchIndexRow, ...]:
        """How pip finds the builds of a range of releases."""
        return self._rows("torch.toml", "index", TorchIndexRow)

    # --- architectures -------------------------------------------------------------------------------------------

    def runs_on(self, arch: Arch, device: ComputeCapability) -> bool:
        """Tell whether code for *arch* runs on a device: machine code as it is, PTX after the driver compiled it.

        Whether a driver knows the PTX version is another question: see `ptx_isa`. Numbers that the tables do not
        know follow the general rules (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").
        """
        if arch.kind is CodeKind.LTO_IR:
            return False  # input of a device link
        code = self.architectures.get(arch.capability)
        if arch.capability == device or (code and device in code.also_runs_on):
            return True
        if arch.arch_specific:
            return False
        if arch.family_specific and code:
            return device in code.family
        if arch.kind is CodeKind.PTX and not arch.family_specific:
            return device >= arch.capability
        if self._is_isolated(arch.capability) or self._is_isolated(device):
            return False
        return device.major == arch.capability.major and device.minor >= arch.capability.minor

    def is_unsettled(self, arch: Arch, device: ComputeCapability, cuda: CudaVersion) -> bool:
        """Tell whether `runs_on` says no although CUDA of this version, of the build or the driver, may run the code.

        Integrated chips stood outside the minor-version rule; whether Orin still does with CUDA 13.2 is not settled.
        """
        row = self.architectures.get(device)
        if row is None or row.isolated_before is None or cuda < row.isolated_before:
            return False
        is_plain = arch.kind is CodeKind.SASS and not arch.suffix and not self._is_isolated(arch.capability)
        return is_plain and device.major == arch.capability.major and device.minor >= arch.capability.minor

    def _is_isolated(self, capability: ComputeCapability) -> bool:
        row = self.architectures.get(capability)
        return row is not None and row.isolated

    def coverage(self, containers: Iterable[ContainerGroup], device: ComputeCapability) -> Coverage:
        """Count the kernel containers that run on a device natively, only through PTX, or not at all.

        Containers that no kernel is launched from are left out: relocatable ones (input of a device link), empty
        ones, and the stub that the device link adds, whose entries are all stubs.
        """
        counts = {"native": 0, "jit": 0, "none": 0}
        for group in containers:
            kernels = [entry.arch for entry in group.code if not entry.is_stub]
            if group.relocatable or not kernels:
                continue
            kinds = {arch.kind for arch in kernels if self.runs_on(arch, device)}
            way = "native" if CodeKind.SASS in kinds else "jit" if CodeKind.PTX in kinds else "none"
            counts[way] += group.count
        return Coverage(**counts)

    def architecture(self, capability: ComputeCapability) -> str:
        """Return the name of a generation, e.g. ``Ampere``; empty when it is not known."""
        row = self.architectures.get(capability)
        return row.name if row else ""

    def first_toolkit(self, capability: ComputeCapability) -> CudaVersion | None:
        """Return the oldest toolkit that compiles for a device; None when it is not known, or older than the tables."""
        row = self.architectures.get(capability)
        return row.first_toolkit if row else None

    def first_driver_branch(self, capability: ComputeCapability) -> int | None:
        """Return the first branch of the driver that supports a device; None when it is older than the tables.

        It is the branch that came with the CUDA version that introduced the architecture. Source:
        https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html
        """
        first_toolkit = self.first_toolkit(capability)
        if first_toolkit is None:
            return None
        knowing = (branch for branch, row in self.driver_branches.items() if row.newest_cuda >= first_toolkit)
        return min(knowing, default=None)

    def last_driver_branch(self, capability: ComputeCapability) -> int | None:
        """Return the last branch of the driver that supports a device; None while support goes on."""
        row = self.architectures.get(capability)
        return row.last_driver_branch if row else None

    # --- drivers and CUDA ----------------------------------------------------------------------------------------

    def minimum_driver(self, cuda: CudaVersion, system: str = "Linux") -> DriverRelease | None:
        """Return the oldest driver that runs applications built with a CUDA version; None when it is not known."""
        rows = [
            row
            for row in self.minimum_drivers
            if row.cuda == cuda or (row.later_minors and row.cuda.major == cuda.major and row.cuda < cuda)
        ]
        if not rows:
            return None
        return rows[-1].windows if system == "Windows" else rows[-1].linux

    def driver_runs(self, driver: DriverRelease, cuda: CudaVersion, system: str = "Linux") -> bool | None:
        """Tell whether a driver runs applications built with a CUDA version; None when it is not known.

        It says nothing about a device that the driver has dropped: see `last_driver_branch`.
        """
        minimum = self.minimum_driver(cuda, system)
        return None if minimum is None else driver >= minimum

    def newest_cuda(self, driver: DriverRelease) -> CudaVersion | None:
        """Return the newest CUDA version that a driver supports, by its branch; None when it is not known."""
        row = self.driver_branches.get(driver.branch)
        return row.newest_cuda if row and not row.uncertain else None

    def ptx_isa(self, cuda: CudaVersion) -> PtxIsaVersion | None:
        """Return the PTX version that a toolkit writes, and that a driver of the same CUDA version compiles."""
        if cuda > self.ptx_versions[-1].cuda:
            return None
        return max((row.version for row in self.ptx_versions if row.cuda <= cuda), default=None)

    # --- GPUs ----------------------------------------------------------------------------------------------------

    @cached_property
    def _gpu_names(self) -> GpuNames:
        names = {row.capability: row.name for row in self.architectures.values()}
        return GpuNames(self.gpus, self.gpu_aliases, names)

    def find_gpu(self, text: str) -> GpuModel:
        """Return the GPU that people mean by *text*: a name in any usual spelling, ``sm_86``, ``8.6``, a cloud's name.

        Raises:
            UnknownGpuError: no card is called that, or cards that differ; the message lists the nearest names.

        """
        return self._gpu_names.find(text)

    def chip(self, pci_id: str) -> ChipRow | None:
        """Return the chip of a PCI device number, e.g. ``2684``; None when it is not known."""
        return next((row for row in self.chips if pci_id.lower() in row.pci_ids), None)

    # --- torch ---------------------------------------------------------------------------------------------------

    @cached_property
    def _torch_builds(self) -> tuple[TorchBuildRow, ...]:
        return expand_builds(self.torch_releases, self.torch_build_groups, self.torch_indexes)

    def torch_builds(self) -> tuple[TorchBuildRow, ...]:
        """Return one row per release of torch, CUDA version and platform, oldest release first."""
        return self._torch_builds

    def torch_release(self, version: str) -> TorchReleaseRow | None:
        """Return what is known of a release, with or without local version: ``1.13.1+cu117``."""
        return self.torch_releases.get(version.partition("+")[0])

    def companions(self, version: str) -> dict[str, str]:
        """Return the versions of torchvision, torchaudio and torchtext that belong to a release of torch."""
        release = self.torch_release(version)
        if release is None:
            return {}
        pairs = {"torchvision": release.torchvision, "torchaudio": release.torchaudio, "torchtext": release.torchtext}
        return {name: companion for name, companion in pairs.items() if companion}

    @cached_property
    def companion_pins(self) -> tuple[CompanionPinRow, ...]:
        """The releases of packages that fit one release of torch, oldest first."""
        return self._rows("companions.toml", "pin", CompanionPinRow)

    @cached_property
    def source_only(self) -> tuple[SourceOnlyRow, ...]:
        """The packages that pip compiles where they are installed, against the torch that is there."""
        return self._rows("companions.toml", "sdist", SourceOnlyRow)

    def companion_for(self, distribution: str, torch: str) -> CompanionPinRow | None:
        """Return the newest release of a package that was made for a release of torch; None when none is known."""
        release = torch.partition("+")[0]
        order = list(self.torch_releases)
        fitting = [
            row
            for row in self.companion_pins
            if row.distribution == distribution
            and (row.torch == release or (row.later and release in order[order.index(row.torch) :]))
        ]
        return fitting[-1] if fitting else None

    def torch_symbols(self) -> tuple[TorchSymbolsRow, ...]:
        """Return the symbols that only some releases of torch define, as far as extensions ask for them."""
        return self._rows("torch_symbols.toml", "symbols", TorchSymbolsRow)

    @cached_property
    def _torch_symbols(self) -> "TorchSymbols":
        from envdoctor.kb.torch_symbols import TorchSymbols

        return TorchSymbols(self.torch_symbols())

    def find_torch_releases(self, symbols: Iterable[str]) -> "TorchReleases | None":
        """Find the releases of torch that define every one of some mangled symbols; None when it cannot be told."""
        return self._torch_symbols.find_releases(symbols)

    # --- extensions ----------------------------------------------------------------------------------------------

    def cuda_parts(self) -> tuple[CudaPartRow, ...]:
        """Return the extension modules that builds with CUDA have, by project."""
        return self._rows("cuda_parts.toml", "cuda_part", CudaPartRow)

    def own_build(self, distribution: str) -> OwnBuildRow | None:
        """Return why a project cannot be built for a GPU as others are; None when it can, as far as is known."""
        rows = self._rows("cuda_parts.toml", "own_build", OwnBuildRow)
        return next((row for row in rows if distribution in row.distributions), None)

    # --- packages ------------------------------------------------------------------------------------------------

    def unmet_needs(self, distribution: str, version: str, device: ComputeCapability) -> tuple[PackageNeedRow, ...]:
        """Return what a version of a package needs of a GPU and a device does not have, the whole package first."""
        rows = [
            row
            for row in self._package_needs
            if row.distribution == distribution and row.capability > device and row.concerns(version)
        ]
        return tuple(sorted(rows, key=lambda row: row.feature))

    @cached_property
    def _package_needs(self) -> tuple[PackageNeedRow, ...]:
        return self._rows("needs.toml", "need", PackageNeedRow)

    # --- the loader ----------------------------------------------------------------------------------------------

    def load_effects(self) -> tuple[LoadEffectRow, ...]:
        """Return what packages make of libraries that cannot be loaded; the first row that concerns one holds."""
        return self._rows("load_effects.toml", "load_effect", LoadEffectRow)

    def load_effect(self, library: str, version: str = "") -> LoadEffectRow | None:
        """Return what becomes of a library, by its path, that cannot be loaded; *version* is its distribution's."""
        folders = library.split("/")
        found = [row for name in dict.fromkeys((*folders, "")) for row in self._load_effects_by_folder.get(name, ())]
        return next((row for row in found if row.concerns(library, version)), None)

    @cached_property
    def _load_effects_by_folder(self) -> Mapping[str, list[LoadEffectRow]]:
        """The rows by the folder that their pattern starts with, "" for modules that lie in none."""
        by_folder: dict[str, list[LoadEffectRow]] = {}
        for row in self.load_effects():
            folder, slash, _ = row.library.partition("/")
            by_folder.setdefault(folder if slash else "", []).append(row)
        return by_folder

    def system_libraries(self) -> tuple[SystemLibraryRow, ...]:
        """Return the packages of Debian and Ubuntu that have the libraries which wheels expect of the system."""
        return self._rows("system_libraries.toml", "system_library", SystemLibraryRow)

    def system_library(self, name: str) -> SystemLibraryRow | None:
        """Return the package that has a library, by its soname."""
        return next((row for row in self.system_libraries() if name in row.libraries), None)

    def headless(self, distribution: str) -> HeadlessRow | None:
        """Return what can be installed instead of a distribution that needs libraries of a desktop."""
        rows = self._rows("system_libraries.toml", "headless", HeadlessRow)
        return next((row for row in rows if distribution in row.distributions), None)

    def cuda_wheel(self, distribution: str, *, cuda: int, cudnn: int) -> CudaWheelRow | None:
        """Return what to install in place of a distribution that is for another CUDA; *cudnn* is the one at hand."""
        rows = self._rows("cuda_wheels.toml", "cuda_wheel", CudaWheelRow)
        fitting = (row for row in rows if row.cuda == cuda and row.cudnn in {0, cudnn})
        return next((row for row in fitting if distribution in row.distributions), None)

    # --- messages ------------------------------------------------------------------------------------------------

    def symptoms(self) -> tuple[SymptomRow, ...]:
        """Return the error messages that people search for, and the rules that explain them."""
        return self._rows("symptoms.toml", "symptom", SymptomRow)


@cache
def load() -> KnowledgeBase:
    """Return the knowledge base that ships with envdoctor."""
    return KnowledgeBase(Path(__file__).parent)
