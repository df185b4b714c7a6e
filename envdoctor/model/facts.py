"""What the probes found out about a machine and an environment: plain, frozen data, no judgement.

Paths are text, as they stood on the examined machine: facts may be judged on another one.
Sizes are bytes, power is watts, temperatures are degrees Celsius.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.device_code import ContainerGroup
from envdoctor.model.installation import ContestedProject, DamagedInstallation, Launcher, ShadowedModule
from envdoctor.model.loading import ForeignModule, Loader
from envdoctor.model.versions import CudaVersion, DriverRelease


class Absence(Enum):
    """Why a fact is missing."""

    NOT_APPLICABLE = "not applicable"  # nothing of the kind here: no torch, no GPU named
    UNREADABLE = "unreadable"  # it should be told but could not: NVML silent, file damaged


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands in for a fact that is missing, and says why."""

    reason: str
    absence: Absence = Absence.UNREADABLE


NOT_PROBED = Unavailable("not probed", Absence.NOT_APPLICABLE)


# --- the examined environment ------------------------------------------------------------------------------------


class PathSource(Enum):
    """How the import path of the examined interpreter was learnt."""

    INTERPRETER = "interpreter"  # it was run, isolated, and asked
    FILES = "files"  # it cannot run here; derived from the folder layout


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """One folder of the examined interpreter's `sys.path`, in order."""

    path: str
    origin: str  # "site-packages", "user site", "PYTHONPATH", ".pth NAME", "editable NAME", "standard library", ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The examined environment: not necessarily the one that envdoctor itself runs in."""

    interpreter: str | Unavailable  # path; Unavailable for a bare site-packages
    prefix: str
    kind: str  # "venv", "conda", "system", "bare site-packages"
    chosen_because: str  # "--python", "VIRTUAL_ENV", "CONDA_PREFIX", "python on PATH", "envdoctor's own"
    python_version: tuple[int, ...] | Unavailable  # (3, 8, 18)
    implementation: str  # "cpython"
    platform: str  # sysconfig's platform, e.g. "linux-x86_64"
    extension_suffixes: tuple[str, ...]
    path_source: PathSource
    search_path: tuple[SearchEntry, ...]
    user_site_enabled: bool
    system_site_packages: bool
    externally_managed: bool = False  # pip refuses to change it without being told to (PEP 668)
    other_python: str = ""  # what `python` starts instead, although this environment is active
    notes: tuple[str, ...] = ()  # oddities worth a line: the interpreter timed out, `home` of pyvenv.cfg is gone, ...


class MetadataKind(Enum):
    """The form of installed metadata that a distribution was found by."""

    DIST_INFO = "dist-info"
    EGG_INFO = "egg-info"
    EGG_LINK = "egg-link"
    CONDA_META = "conda-meta"
    LEFTOVER = "leftover"  # `~orch`: what an interrupted pip leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Something installed, as its metadata on disk tells; broken metadata is a distribution with `problems`."""

    name: str  # normalised (PEP 503)
    version: str | Unavailable
    metadata_kind: MetadataKind
    metadata_path: str
    location: str  # the folder of the search path that it was found in
    requires: tuple[str, ...] = ()  # Requires-Dist, unparsed: old metadata is often invalid
    requires_python: str = ""
    installer: str = ""
    build: str = ""  # conda's build string, e.g. "py3.8_cuda11.1_cudnn8_0"
    direct_url: str = ""  # PEP 610
    editable_root: str = ""  # the source folder of an editable or `develop` install
    source_is_gone: bool = False  # that folder, or what the installation needs of it, does not exist
    shadowed_by: str = ""  # metadata_path of the same name that comes earlier on the search path
    problems: tuple[str, ...] = ()


class TorchFlavour(Enum):
    """What hardware a torch build serves."""

    CPU = "CPU"
    CUDA = "CUDA"
    ROCM = "ROCm"
    XPU = "XPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """The torch that the examined interpreter would import, read from its files."""

    root: str  # the folder `torch`
    version: str  # version.py's `__version__`: the only place that tells CPU from CUDA
    flavour: TorchFlavour
    build_cuda_version: CudaVersion | None  # None for a build without CUDA
    hip_version: str | None
    git_version: str | None
    debug: bool | None
    arch_list: tuple[Arch, ...] | Unavailable  # what `torch.cuda.get_arch_list()` would say; () for a CPU build
    arch_list_source: str
    cxx11_abi: bool | Unavailable
    cudnn_version: str | Unavailable
    nccl_version: str | Unavailable
    distribution: str  # metadata_path of the distribution that owns it, "" when none does
    installed_by: str  # "pip", "conda", ...: from INSTALLER or conda-meta
    libraries: tuple[str, ...]  # shared libraries of torch/lib, by path
    loaded_libraries: tuple[str, ...]  # those that `import torch` always loads: the DT_NEEDED closure of torch/_C
    problems: tuple[str, ...] = ()
    library_problems: tuple[str, ...] = ()  # libraries that are damaged or missing: what the loader stumbles over
    rivals: tuple[str, ...] = ()  # other folders `torch` behind `root` on the search path
    # Without its `__init__.py` the folder is a namespace package to Python, and `torch.Tensor` does not exist.
    has_init: bool = True
    # Why the interpreter does not find the extension module `torch._C`: the names of those that are for another one, or
    # that there is none; "" where it finds it.
    missing_extension: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonBuild:
    """The triton of the environment and the `ptxas` that it starts, which compiles for the GPU."""

    version: str
    ptxas: str | Unavailable  # path: what TRITON_PTXAS_PATH names where it names a file, else the one inside triton
    ptxas_version: CudaVersion | Unavailable
    # The targets that triton can have compiled: those that `ptxas` accepts, and from 10.0 on those of the
    # `ptxas-blackwell` beside it instead, where there is one (triton 3.3 and later: backends/nvidia/compiler.py).
    ptxas_archs: tuple[Arch, ...] | Unavailable


class CudaCheck(Enum):
    """What the code of a companion of torch does when it was built with another CUDA version than torch."""

    NONE = "nothing"
    MAJOR = "refuses another major version"
    MINOR = "refuses another version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A distribution that is made for one build of torch, and what its own files tell of that build."""

    distribution: str
    version: str  # with the local version of its code where that tells: "0.16.2+cu118"
    source: str  # where that stands: "torchvision/version.py", "METADATA", "direct_url.json", "xformers/cpp_lib.json"
    torch_release: str  # "2.1.2", or only "2.4"; "" when the files do not tell
    cuda: str  # "11.8", or only "12"; "" for a build without CUDA, or when the files do not tell
    flavour: TorchFlavour | None  # None when the files do not tell
    cuda_check: CudaCheck = CudaCheck.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestedFile:
    """A file that several distributions brought, each with other content: the last one overwrote the others'."""

    path: str
    owner: str  # the distribution whose list of files fits what lies on the disk; "" when none does, or several may


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestedFolder:
    """A folder of code that several distributions install into, over each other's files."""

    folder: str
    distributions: tuple[str, ...]  # in order of the alphabet; one alone where libraries are not those that it brought
    contested: int  # how many files of code
    files: tuple[ContestedFile, ...]  # the first of them, compiled ones before others


@dataclass(frozen=True, slots=True, kw_only=True)
class NvrtcBuiltins:
    """The library of built-in functions that an NVRTC opens by name when it compiles."""

    nvrtc: str  # file of the compiler
    nvrtc_cuda: CudaVersion
    name: str  # what it asks for: "libnvrtc-builtins.so" up to CUDA 10.2, "libnvrtc-builtins.so.12.1"
    path: str  # what the loader takes for it
    found_through: str  # see `LoadedLibrary`
    builtins_cuda: CudaVersion  # of that file
    right: str  # the file of the compiler's own release beside it, "" when there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class CupyBuild:
    """CuPy, and where the compiler lies that it loads by name to build its kernels."""

    distribution: str  # "cupy-cuda12x"
    version: str
    nvrtc: str  # the soname that it asks for: "libnvrtc.so.12"
    findable: tuple[str, ...]  # files of that name that it finds
    hidden: tuple[str, ...]  # those beside it that it finds only once something else has loaded them
    builtins: NvrtcBuiltins | None = None  # None when they, or their releases, are not known


# --- device code -------------------------------------------------------------------------------------------------


class LibraryRole(Enum):
    """What a shared library is to the environment."""

    TORCH = "torch"  # part of torch itself
    EXTENSION = "extension"  # a Python extension module, or a library of another distribution
    NVIDIA = "nvidia"  # NVIDIA's own runtime libraries (nvidia-* wheels)
    JIT = "jit"  # built at run time into a cache: torch_extensions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """The CUDA device code that one shared library carries."""

    library: str  # path
    distribution: str  # name of the distribution that owns it, "" when unknown
    role: LibraryRole
    always_loaded: bool  # `import torch` loads it
    size: int
    containers: tuple[ContainerGroup, ...]
    has_hip_code: bool = False
    needed: tuple[str, ...] = ()  # DT_NEEDED
    unreadable: str = ""  # why the reading stopped; what was read before stands


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOnlyExtension:
    """A compiled extension of a project that ships CUDA sources or modules, without its CUDA part."""

    distribution: str
    library: str  # path of the library without device code, or of the package when a whole module is missing
    expected: str  # what a build with CUDA has: "device code", "module `amp_C`", ...
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JitExtension:
    """One extension that torch compiled at run time and keeps in a cache (`torch.utils.cpp_extension.load`)."""

    name: str
    folder: str
    cache_tag: str  # "py38_cu111"; "" for caches of torch before 1.10
    library: str
    gencode: tuple[Arch, ...]  # from build.ninja
    torch_include: str  # the torch whose headers it was built with, from build.ninja
    lock_age_seconds: float | None  # age of a leftover `lock` file


# --- driver and devices ------------------------------------------------------------------------------------------


class NvmlCode(NamedTuple):
    """A return value of NVML, e.g. 18 ``NVML_ERROR_LIB_RM_VERSION_MISMATCH``."""

    number: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlSession:
    """How asking NVML went, from loading the library to the last call."""

    library: str  # path of libnvidia-ml.so.1 where it can be told, else the name
    init: NvmlCode  # (0, "NVML_SUCCESS") when it started; (12, "NVML_ERROR_LIBRARY_NOT_FOUND") when there is none
    device_count: int | Unavailable
    # (function, return value) of every other call that failed; of calls about a GPU "nvmlDeviceGetName(1)".
    failed_calls: tuple[tuple[str, NvmlCode], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver of this machine, or the one named with ``--driver``."""

    release_version: DriverRelease | Unavailable  # what is loaded: kernel module first, NVML second
    source: str  # "--driver", "NVML", "/sys/module/nvidia/version", ...
    cuda_version: CudaVersion | Unavailable  # newest CUDA that it supports (nvidia-smi's "CUDA Version")
    module_version: DriverRelease | Unavailable  # kernel module, from /sys or /proc
    library_version: DriverRelease | Unavailable  # libcuda / libnvidia-ml that processes load, from the file name
    open_module: bool | Unavailable  # flavour of the kernel module: open (MIT/GPL) or proprietary


class ComputeMode(Enum):
    """Who may create a CUDA context on a GPU."""

    DEFAULT = "default"
    EXCLUSIVE_PROCESS = "exclusive process"
    PROHIBITED = "prohibited"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds a compute context on a GPU."""

    pid: int
    used_memory: int | Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One slice of a GPU in MIG mode."""

    uuid: str
    name: str
    total_memory: int | Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """What NVML says about one GPU's state; each value may be missing (GeForce has no ECC, old drivers less)."""

    compute_mode: ComputeMode | Unavailable = NOT_PROBED
    total_memory: int | Unavailable = NOT_PROBED
    free_memory: int | Unavailable = NOT_PROBED
    processes: tuple[GpuProcess, ...] | Unavailable = NOT_PROBED
    mig_enabled: bool | Unavailable = NOT_PROBED
    mig_instances: tuple[MigInstance, ...] | Unavailable = NOT_PROBED
    ecc_enabled: bool | Unavailable = NOT_PROBED
    ecc_uncorrected: int | Unavailable = NOT_PROBED  # volatile: since the driver was loaded
    remapped_rows_pending: bool | Unavailable = NOT_PROBED
    remapped_rows_failed: bool | Unavailable = NOT_PROBED
    retired_pages_pending: bool | Unavailable = NOT_PROBED
    power_limit: float | Unavailable = NOT_PROBED
    power_default_limit: float | Unavailable = NOT_PROBED
    temperature: int | Unavailable = NOT_PROBED
    clock_event_reasons: tuple[str, ...] | Unavailable = NOT_PROBED  # "HW_THERMAL_SLOWDOWN", ...: NVML's names
    pcie_width: int | Unavailable = NOT_PROBED
    pcie_max_width: int | Unavailable = NOT_PROBED
    pcie_generation: int | Unavailable = NOT_PROBED
    pcie_max_generation: int | Unavailable = NOT_PROBED
    persistence_mode: bool | Unavailable = NOT_PROBED
    bar1_memory: int | Unavailable = NOT_PROBED


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One board: seen by NVML, or named with ``--gpu`` and not here (then `uuid` is empty and `health` is None)."""

    index: int  # NVML's (PCI order), or the place among the named cards
    name: str
    compute_capability: ComputeCapability | Unavailable
    source: str  # "NVML" or "--gpu 4090"
    uuid: str = ""
    pci_bus_id: str = ""
    brand: str = ""  # NVML's brand, e.g. "GEFORCE"
    health: GpuHealth | None = None

    @property
    def is_named(self) -> bool:
        """Whether the card is not here: chosen with ``--gpu``."""
        return self.health is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAccess:
    """Whether two GPUs can read each other's memory, as NVML tells."""

    first: int
    second: int
    read: str  # "OK", "CHIPSET_NOT_SUPPORTED", "DISABLED_BY_REGKEY", ...: NVML's names
    write: str


# --- the machine -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """One ``/dev/nvidia*`` node and whether this process may open it."""

    path: str
    openable: bool
    error: str = ""  # errno name when it cannot be opened, e.g. "EPERM"


@dataclass(frozen=True, slots=True, kw_only=True)
class PciGpu:
    """An NVIDIA display controller on the PCI bus, from /sys/bus/pci/devices."""

    address: str
    device_id: str  # four hexadecimal digits, e.g. "2684"
    driver: str  # kernel driver bound to it: "nvidia", "nouveau", "vfio-pci", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaLibrary:
    """A file that answers to ``libcuda.so.1`` or ``libnvidia-ml.so.1`` and where the loader would find it."""

    soname: str
    path: str  # resolved
    release: DriverRelease | Unavailable  # from the file name
    found_through: str  # "LD_LIBRARY_PATH", "ld.so.cache", "default", "wsl"
    is_compat: bool  # NVIDIA's forward-compatibility package (``cuda-compat``)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine that the probes ran on."""

    system: str  # "Linux"
    machine: str  # "x86_64"
    linux_release: str
    distribution: str  # PRETTY_NAME of os-release
    glibc: str | Unavailable
    libstdcxx: str | Unavailable  # newest GLIBCXX_* of the system's libstdc++.so.6
    container: str  # "docker", "podman", "kubernetes", "apptainer", ...: "" when there is no sign of one
    container_evidence: str
    wsl: bool
    device_nodes: tuple[DeviceNode, ...]
    pci_gpus: tuple[PciGpu, ...] | Unavailable
    cuda_libraries: tuple[CudaLibrary, ...]  # in the order in which the loader would try them
    shm_total: int | Unavailable
    shm_free: int | Unavailable
    cpu_count: int
    total_memory: int | Unavailable
    mps_directory: str | Unavailable = NOT_PROBED  # where CUDA programs find a running MPS daemon; "" when none runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable of the allow-list."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """One CUDA toolkit with `nvcc`."""

    nvcc: str  # path
    toolkit_version: CudaVersion | Unavailable
    found_through: str  # "CUDA_HOME", "PATH", "/usr/local/cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompiler:
    """A C++ compiler that nvcc or a build would use."""

    path: str
    kind: str  # "gcc", "clang"
    version: str | Unavailable
    found_through: str  # "CXX", "PATH c++", ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What extensions would be built with here."""

    toolkits: tuple[Toolkit, ...]
    compilers: tuple[HostCompiler, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the probes found out, in one value; the names of the fields are what rules ask for."""

    environment: Environment | Unavailable = NOT_PROBED
    distributions: tuple[Distribution, ...] | Unavailable = NOT_PROBED
    torch: TorchBuild | Unavailable = NOT_PROBED
    triton: TritonBuild | Unavailable = NOT_PROBED
    companions: tuple[Companion, ...] | Unavailable = NOT_PROBED
    contested_folders: tuple[ContestedFolder, ...] | Unavailable = NOT_PROBED
    cupy: CupyBuild | Unavailable = NOT_PROBED
    device_code: tuple[DeviceCode, ...] | Unavailable = NOT_PROBED
    cpu_only_extensions: tuple[CpuOnlyExtension, ...] | Unavailable = NOT_PROBED
    loader: Loader | Unavailable = NOT_PROBED
    foreign_modules: tuple[ForeignModule, ...] | Unavailable = NOT_PROBED
    jit_extensions: tuple[JitExtension, ...] | Unavailable = NOT_PROBED
    damaged_installations: tuple[DamagedInstallation, ...] | Unavailable = NOT_PROBED
    contested_projects: tuple[ContestedProject, ...] | Unavailable = NOT_PROBED
    shadowed_modules: tuple[ShadowedModule, ...] | Unavailable = NOT_PROBED
    launchers: tuple[Launcher, ...] | Unavailable = NOT_PROBED
    gpus: tuple[Gpu, ...] | Unavailable = NOT_PROBED
    nvml: NvmlSession | Unavailable = NOT_PROBED
    driver: Driver | Unavailable = NOT_PROBED
    peer_access: tuple[PeerAccess, ...] | Unavailable = NOT_PROBED
    host: Host | Unavailable = NOT_PROBED
    variables: tuple[Variable, ...] | Unavailable = NOT_PROBED
    toolchain: Toolchain | Unavailable = NOT_PROBED
