"""The kinds of rows that the tables hold: what a row says, and where that was read."""

import re
from dataclasses import dataclass
from datetime import date
from enum import Enum
from fnmatch import fnmatchcase

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.versions import CudaVersion, DriverRelease, PtxIsaVersion

_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every row carries: its provenance."""

    source: tuple[str, ...]
    checked: date
    uncertain: bool = False
    note: str = ""


def _is_version_in(version: str, versions: str) -> bool:
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except ValueError:  # also of numbers that are too long for Python
        return False


# --- architectures.toml ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureRow(Row):
    """One compute capability: its generation, what its code runs on, and when NVIDIA supported it."""

    capability: ComputeCapability
    name: str
    # Integrated chips stand outside the minor-version rule: other code does not run on them, nor theirs elsewhere.
    isolated: bool = False
    isolated_before: CudaVersion | None = None  # whether they still do from this version on is not settled
    also_runs_on: tuple[ComputeCapability, ...] = ()  # machine code; the same chip under another number
    family: tuple[ComputeCapability, ...] = ()  # devices that run its family-specific code (suffix `f`)
    first_toolkit: CudaVersion | None = None  # None: older than every toolkit of cuda.toml
    last_toolkit: CudaVersion | None = None  # None: still supported
    last_driver_branch: int | None = None  # None: still supported


# --- cuda.toml ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitRow(Row):
    """One CUDA toolkit: what its compilers produce and which host compilers they accept."""

    version: CudaVersion
    targets: tuple[Arch, ...]  # what ptxas accepts, without those that nvcc no longer offers
    gcc_min: int | None = None
    gcc_max: int | None = None
    clang_below: int | None = None
    msc_ver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxRow(Row):
    """One version of PTX and the CUDA version that brought it."""

    version: PtxIsaVersion
    cuda: CudaVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumDriverRow(Row):
    """The oldest driver that runs applications built with one CUDA version."""

    cuda: CudaVersion
    linux: DriverRelease
    windows: DriverRelease
    later_minors: bool = False  # minor-version compatibility: it holds for later versions of the same major too


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverBranchRow(Row):
    """One branch of the driver and the newest CUDA version that it supports."""

    branch: int
    newest_cuda: CudaVersion


# --- gpus.toml ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow(Row):
    """One product by the name that the driver gives it, or that NVIDIA lists it under."""

    name: str
    compute_capability: ComputeCapability
    memory_gb: tuple[float, ...] = ()  # several when sold in several sizes under one name; () when not known
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAliasRow(Row):
    """What a cloud or a rental site calls a machine with one kind of GPU."""

    alias: str
    gpu: str  # a name of gpus.toml


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipRow(Row):
    """One GPU chip and the PCI device numbers that boards with it carry."""

    chip: str
    compute_capability: ComputeCapability
    pci_ids: tuple[str, ...]


# --- torch.toml --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchReleaseRow(Row):
    """One release of torch."""

    version: str
    pythons: tuple[str, ...]  # tags of the Linux x86_64 wheels: "cp38", "cp313t"
    pythons_aarch64: tuple[str, ...] = ()
    default_cuda: CudaVersion | None = None  # of the Linux x86_64 wheels on the default index
    default_cuda_aarch64: CudaVersion | None = None  # None: CPU builds, or none
    glibc_min: str
    cxx11_abi: bool
    torchvision: str = ""  # the companions that belong to it; empty when there is none, or none is known
    torchaudio: str = ""
    torchtext: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuildsRow(Row):
    """Builds of torch that share CUDA versions and an arch list: one for each of `releases` and each of `cuda`."""

    releases: tuple[str, ...]
    cuda: tuple[CudaVersion, ...]
    platform: str
    arch_list: tuple[Arch, ...] = ()  # () when not known
    glibc_min: str = ""  # where it differs from the release's
    cxx11_abi: bool | None = None  # where it differs from the release's


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchIndexRow(Row):
    """How pip finds the builds of a range of releases that the default index does not have."""

    first: str
    last: str
    option: str  # "--index-url"
    url: str  # {tag} stands for the CUDA tag
    tagged: tuple[str, ...] = ()  # projects whose version carries the CUDA tag there: "torch==1.13.1+cu117"
    has_default: bool = True  # whether it also has the build that is on the default index


# --- torch_symbols.toml ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSymbolsRow(Row):
    """Symbols that the same releases of torch define; a bound is empty where the releases that were read have none."""

    first: str = ""  # without patch: "2.1"
    last: str = ""
    names: tuple[str, ...]  # mangled, each in one ABI of std::string


# --- cuda_parts.toml ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPartRow(Row):
    """The extension modules of one project that hold CUDA code where it was built with CUDA: one of them is enough."""

    distributions: tuple[str, ...]
    modules: tuple[str, ...]  # paths from the folder it is installed in, up to the suffix: "mmcv/_ext"
    beside: str = ""  # pattern of a path that shows that a module is missing; without it, absence shows nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBuildRow(Row):
    """Projects that are compiled against torch, but not for the GPUs that ``TORCH_CUDA_ARCH_LIST`` names."""

    distributions: tuple[str, ...]
    reason: str


# --- needs.toml --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageNeedRow(Row):
    """The oldest GPU on which a package, or one feature of it, works."""

    distribution: str
    versions: str  # a version specifier: ">=2"
    capability: ComputeCapability
    feature: str = ""  # empty: the whole package
    instead: str  # what to do on an older GPU

    def concerns(self, version: str) -> bool:
        """Tell whether a version of the package is one of `versions`; one that no standard knows is none."""
        return _is_version_in(version, self.versions)


# --- load_effects.toml -------------------------------------------------------------------------------------------


class LoadEffect(Enum):
    """What becomes of the dynamic loader's refusal to load a library."""

    IMPORT_FAILS = "import fails"  # importing the package loads it, and fails, mostly with other words
    GOES_ON = "goes on"  # the import swallows the error: something is missing later, often without a word
    LAZY = "lazy"  # it is opened when first used
    VARIANT = "variant"  # of several files one is used, or none; of the others nothing is asked

    @classmethod
    def parse(cls, text: str) -> "LoadEffect":
        """Return the effect of that name; anything else is a ValueError."""
        return cls(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEffectRow(Row):
    """What a package makes of a library of its own that cannot be loaded."""

    library: str  # pattern (fnmatch) of the path from the folder it is installed in: "torchvision/_C*.so"
    effect: LoadEffect
    seen: str = ""  # what the user sees instead; "" when these are the loader's own words
    versions: str = ""  # of the distribution that owns it, a version specifier; "" for all

    def concerns(self, library: str, version: str) -> bool:
        """Tell whether a library, by its path, is meant; without a version only by rows for all versions."""
        # Patterns are compiled when first used: of most of them the beginning tells enough.
        beginning = _WILDCARD.split(self.library, maxsplit=1)[0]
        return (
            f"/{beginning}" in f"/{library}"
            and fnmatchcase(f"/{library}", f"*/{self.library}")
            and (not self.versions or _is_version_in(version, self.versions))
        )


# --- companions.toml ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionPinRow(Row):
    """One release of a package that fits one release of torch."""

    distribution: str
    version: str
    torch: str
    later: bool = False  # whether it fits later releases of torch too
    pythons: tuple[str, ...] = ()  # for which there are wheels, () for all that its torch has


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOnlyRow(Row):
    """Packages that the default index has as source alone: pip compiles them against the torch that is installed."""

    distributions: tuple[str, ...]


# --- system_libraries.toml ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLibraryRow(Row):
    """A package of Debian and Ubuntu, and the libraries in it that wheels expect of the system."""

    libraries: tuple[str, ...]  # sonames
    package: str
    only_in: str = ""  # where its name holds the version of a library that others have in another version


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessRow(Row):
    """A distribution that needs libraries of a desktop, and the one that does the same without."""

    distributions: tuple[str, ...]
    instead: str
    packages: tuple[str, ...]  # of Debian and Ubuntu: what the former needs


# --- cuda_wheels.toml --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaWheelRow(Row):
    """What to install for one major version of CUDA in place of distributions, or releases, for another."""

    distributions: tuple[str, ...]
    cuda: int
    cudnn: int = 0  # the major version that it needs, 0 when none
    requirement: str


# --- symptoms.toml -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomRow(Row):
    """An error message that people search for, and the codes of the rules that explain it."""

    pattern: str  # regular expression
    example: str  # one real message
    codes: tuple[str, ...]

    def matches(self, text: str) -> bool:
        """Tell whether the message is in *text*."""
        return re.search(self.pattern, text, re.IGNORECASE) is not None
