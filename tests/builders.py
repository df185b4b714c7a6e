"""The vocabulary of the tests: short ways to say "a 4090", "torch 1.13.1+cu117", "a library with sm_80".

Every builder gives a healthy thing of its kind; keyword arguments replace fields of the model's dataclass.
"""

import re
from dataclasses import replace
from typing import Any

from envdoctor.model.arch import Arch, CodeKind, ComputeCapability, parse_arch_list
from envdoctor.model.device_code import ContainerGroup, KernelCode
from envdoctor.model.facts import (
    Absence,
    Companion,
    ComputeMode,
    ContestedFile,
    ContestedFolder,
    CpuOnlyExtension,
    CudaLibrary,
    CupyBuild,
    DeviceCode,
    DeviceNode,
    Distribution,
    Driver,
    Environment,
    Facts,
    Gpu,
    GpuHealth,
    Host,
    JitExtension,
    LibraryRole,
    MetadataKind,
    NvmlCode,
    NvmlSession,
    NvrtcBuiltins,
    PathSource,
    PciGpu,
    SearchEntry,
    Toolchain,
    TorchBuild,
    TorchFlavour,
    TritonBuild,
    Unavailable,
    Variable,
)
from envdoctor.model.installation import ContestedProject, DamagedInstallation, Launcher, ShadowedModule
from envdoctor.model.loading import (
    FailedLoad,
    ForeignModule,
    LoadedLibrary,
    Loader,
    LoadFailure,
    LoadFault,
    LoadWay,
    OverriddenLibrary,
)
from envdoctor.model.versions import CudaVersion, DriverRelease, PtxIsaVersion

SITE_PACKAGES = "/opt/env/lib/python3.10/site-packages"
TORCH_ARCH_LIST = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"  # torch 2.6.0+cu124

NO_TORCH = Unavailable("torch is not installed", Absence.NOT_APPLICABLE)
NOT_HERE = Unavailable("a card named with --gpu is not here", Absence.NOT_APPLICABLE)


# --- devices -----------------------------------------------------------------------------------------------------


def a_gpu(capability: str = "8.9", **changes: Any) -> Gpu:
    """A card in this machine that NVML sees; `health=None` makes it one named with ``--gpu``."""
    gpu = Gpu(
        index=0,
        name="NVIDIA GeForce RTX 4090",
        compute_capability=ComputeCapability.parse(capability),
        source="NVML",
        uuid="GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
        pci_bus_id="00000000:01:00.0",
        brand="GEFORCE",
        health=a_gpu_health(),
    )
    return replace(gpu, **changes)


def a_named_gpu(capability: str = "8.9", **changes: Any) -> Gpu:
    """A card that is not here."""
    absent = {"source": "--gpu 4090", "uuid": "", "pci_bus_id": "", "brand": "", "health": None}
    return a_gpu(capability, **absent | changes)


def a_gpu_health(**changes: Any) -> GpuHealth:
    """An idle, healthy RTX 4090: 24 GB, no MIG, no ECC counters."""
    not_supported = Unavailable("NVML_ERROR_NOT_SUPPORTED", Absence.NOT_APPLICABLE)
    health = GpuHealth(
        compute_mode=ComputeMode.DEFAULT,
        total_memory=24_564 << 20,
        free_memory=24_090 << 20,
        processes=(),
        mig_enabled=not_supported,
        mig_instances=(),
        ecc_enabled=not_supported,
        ecc_uncorrected=not_supported,
        remapped_rows_pending=not_supported,
        remapped_rows_failed=not_supported,
        retired_pages_pending=not_supported,
        power_limit=450.0,
        power_default_limit=450.0,
        temperature=41,
        clock_event_reasons=("GPU_IDLE",),
        pcie_width=16,
        pcie_max_width=16,
        pcie_generation=1,
        pcie_max_generation=4,
        persistence_mode=True,
        bar1_memory=32 << 30,
    )
    return replace(health, **changes)


def a_driver(release: str = "550.54.15", **changes: Any) -> Driver:
    """A loaded driver whose kernel module and libraries agree."""
    version = DriverRelease.parse(release)
    driver = Driver(
        release_version=version,
        source="/sys/module/nvidia/version",
        cuda_version=Unavailable("not asked"),
        module_version=version,
        library_version=version,
        open_module=True,
    )
    return replace(driver, **changes)


def an_nvml_session(**changes: Any) -> NvmlSession:
    """NVML started and every call succeeded."""
    session = NvmlSession(
        library="/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", init=NvmlCode(0, "NVML_SUCCESS"), device_count=1
    )
    return replace(session, **changes)


# --- the environment ---------------------------------------------------------------------------------------------


def an_environment(**changes: Any) -> Environment:
    """A venv of Python 3.10."""
    environment = Environment(
        interpreter="/opt/env/bin/python",
        prefix="/opt/env",
        kind="venv",
        chosen_because="VIRTUAL_ENV",
        python_version=(3, 10, 13),
        implementation="cpython",
        platform="linux-x86_64",
        extension_suffixes=(".cpython-310-x86_64-linux-gnu.so", ".abi3.so", ".so"),
        path_source=PathSource.INTERPRETER,
        search_path=(SearchEntry(path=SITE_PACKAGES, origin="site-packages"),),
        user_site_enabled=False,
        system_site_packages=False,
    )
    return replace(environment, **changes)


def a_distribution(name: str = "torch", version: str = "2.6.0", **changes: Any) -> Distribution:
    """A wheel that pip installed."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    distribution = Distribution(
        name=name,
        version=version,
        metadata_kind=MetadataKind.DIST_INFO,
        metadata_path=f"{SITE_PACKAGES}/{folder}",
        location=SITE_PACKAGES,
        installer="pip",
    )
    return replace(distribution, **changes)


def a_torch(version: str = "2.6.0+cu124", arch_list: str = TORCH_ARCH_LIST, **changes: Any) -> TorchBuild:
    """A torch whose flavour is that of its local version: ``+cu124``, ``+cpu``, ``+rocm6.2``."""
    cuda = re.search(r"\+cu(\d+)(\d)$", version)
    hip = re.search(r"\+rocm([\d.]+)$", version)
    library = f"{SITE_PACKAGES}/torch/lib/libtorch_cuda.so"
    build = TorchBuild(
        root=f"{SITE_PACKAGES}/torch",
        version=version,
        flavour=TorchFlavour.CUDA if cuda else TorchFlavour.ROCM if hip else TorchFlavour.CPU,
        build_cuda_version=CudaVersion(int(cuda[1]), int(cuda[2])) if cuda else None,
        hip_version=hip[1] if hip else None,
        git_version=None,
        debug=False,
        arch_list=parse_arch_list(arch_list) if cuda else (),
        arch_list_source="libtorch_cuda.so",
        cxx11_abi=False,
        cudnn_version=Unavailable("not read"),
        nccl_version=Unavailable("not read"),
        distribution=f"{SITE_PACKAGES}/torch-{version}.dist-info",
        installed_by="pip",
        libraries=(library,) if cuda else (),
        loaded_libraries=(library,) if cuda else (),
    )
    return replace(build, **changes)


def a_triton(version: str = "3.2.0", archs: str = "sm_80 sm_90 sm_90a", **changes: Any) -> TritonBuild:
    """A triton with its own ptxas of CUDA 12.4."""
    build = TritonBuild(
        version=version,
        ptxas=f"{SITE_PACKAGES}/triton/backends/nvidia/bin/ptxas",
        ptxas_version=CudaVersion(12, 4),
        ptxas_archs=parse_arch_list(archs),
    )
    return replace(build, **changes)


def a_companion(distribution: str = "torchvision", version: str = "0.21.0+cu124", **changes: Any) -> Companion:
    """A companion of torch with the flavour of its local version, like `a_torch`."""
    cuda = re.search(r"\+cu(\d+)(\d)$", version)
    companion = Companion(
        distribution=distribution,
        version=version,
        source=f"{distribution}/version.py",
        torch_release="",
        cuda=f"{cuda[1]}.{cuda[2]}" if cuda else "",
        flavour=TorchFlavour.CUDA if cuda else TorchFlavour.CPU if version.endswith("+cpu") else None,
    )
    return replace(companion, **changes)


def a_contested_folder(folder: str, *distributions: str, **owners: str) -> ContestedFolder:
    """A folder of site-packages with files over which distributions wrote: ``**{"lib/libnccl.so.2": "owner"}``."""
    path = f"{SITE_PACKAGES}/{folder}"
    files = tuple(ContestedFile(path=f"{path}/{name}", owner=owner) for name, owner in owners.items())
    return ContestedFolder(folder=path, distributions=distributions, contested=len(files), files=files)


def a_cupy(distribution: str = "cupy-cuda12x", version: str = "13.6.0", **changes: Any) -> CupyBuild:
    """CuPy beside a CUDA 12 of the system."""
    build = CupyBuild(
        distribution=distribution,
        version=version,
        nvrtc="libnvrtc.so.12",
        findable=("/usr/local/cuda-12.4/lib64/libnvrtc.so.12",),
        hidden=(),
    )
    return replace(build, **changes)


def an_nvrtc(**changes: Any) -> NvrtcBuiltins:
    """NVRTC of CUDA 10.2, whole."""
    folder = "/usr/local/cuda-10.2/lib64"
    builtins = NvrtcBuiltins(
        nvrtc=f"{folder}/libnvrtc.so.10.2",
        nvrtc_cuda=CudaVersion(10, 2),
        name="libnvrtc-builtins.so",
        path=f"{folder}/libnvrtc-builtins.so",
        found_through="ld.so.cache",
        builtins_cuda=CudaVersion(10, 2),
        right=f"{folder}/libnvrtc-builtins.so",
    )
    return replace(builtins, **changes)


# --- how what is installed lies there ----------------------------------------------------------------------------


def a_damaged_installation(name: str = "opencv-python", **changes: Any) -> DamagedInstallation:
    """What is left of OpenCV when another distribution of it was uninstalled."""
    damage = DamagedInstallation(
        distribution=name,
        version="4.8.1.78",
        metadata_path=f"{SITE_PACKAGES}/{name.replace('-', '_')}-4.8.1.78.dist-info",
        location=SITE_PACKAGES,
        gone=("cv2/__init__.py", "cv2/cv2.abi3.so"),
        gone_count=2,
        recorded=32,
    )
    return replace(damage, **changes)


def a_contested_project(**changes: Any) -> ContestedProject:
    """torch 2.1.0 of conda under torch 2.2.0 of pip."""
    project = ContestedProject(
        name="torch",
        conda_record="/opt/env/conda-meta/pytorch-2.1.0-py3.10_cuda12.1_cudnn8.9.2_0.json",
        conda_version="2.1.0",
        metadata_path=f"{SITE_PACKAGES}/torch-2.2.0.dist-info",
        version="2.2.0",
        installer="pip",
        survivors=(),
        survivor_count=0,
    )
    return replace(project, **changes)


def a_shadowed_module(name: str = "random", **changes: Any) -> ShadowedModule:
    """A `random.py` on PYTHONPATH that may do."""
    module = ShadowedModule(
        name=name,
        taken=f"/home/user/project/utils/{name}.py",
        origin="PYTHONPATH",
        hidden=f"/usr/lib/python3.10/{name}.py",
        hidden_origin="standard library",
    )
    return replace(module, **changes)


def a_launcher(script: str = "torchrun", **changes: Any) -> Launcher:
    """A script of an environment that was moved from /old/env."""
    launcher = Launcher(script=f"/opt/env/bin/{script}", interpreter="/old/env/bin/python3.10", exists=False)
    return replace(launcher, **changes)


# --- device code -------------------------------------------------------------------------------------------------


def a_container(arch_list: str, *, count: int = 1, ptx_isa: str = "8.4", **changes: Any) -> ContainerGroup:
    """*count* containers that hold code for the same architectures: ``sm_80 compute_80``."""
    isa = PtxIsaVersion.parse(ptx_isa)
    code = tuple(
        KernelCode(arch, isa if arch.kind is CodeKind.PTX else None) for arch in map(Arch.parse, arch_list.split())
    )
    return replace(ContainerGroup(code=code, count=count), **changes)


def a_library(*containers: str | ContainerGroup, **changes: Any) -> DeviceCode:
    """An extension of `mmcv` with one container per argument: ``a_library("sm_80 compute_80")``."""
    groups = tuple(a_container(group) if isinstance(group, str) else group for group in containers)
    device_code = DeviceCode(
        library=f"{SITE_PACKAGES}/mmcv/_ext.cpython-310-x86_64-linux-gnu.so",
        distribution="mmcv",
        role=LibraryRole.EXTENSION,
        always_loaded=False,
        size=30 << 20,
        containers=groups,
    )
    return replace(device_code, **changes)


def a_torch_library(*containers: str | ContainerGroup, **changes: Any) -> DeviceCode:
    """``libtorch_cuda.so``, which `import torch` always loads."""
    torch = {
        "library": f"{SITE_PACKAGES}/torch/lib/libtorch_cuda.so",
        "distribution": "torch",
        "role": LibraryRole.TORCH,
        "always_loaded": True,
        "size": 900 << 20,
    }
    return a_library(*containers, **torch | changes)


def a_cpu_only_extension(**changes: Any) -> CpuOnlyExtension:
    """mmcv that was built where no CUDA was to be seen."""
    extension = CpuOnlyExtension(
        distribution="mmcv",
        library=f"{SITE_PACKAGES}/mmcv/_ext.cpython-310-x86_64-linux-gnu.so",
        expected="device code",
        evidence="mmcv/ops/csrc holds .cu files; the library needs no libcudart",
    )
    return replace(extension, **changes)


def a_jit_extension(gencode: str = "sm_86 compute_86", **changes: Any) -> JitExtension:
    """An extension that `torch.utils.cpp_extension.load` built for an RTX 3090."""
    folder = "/home/user/.cache/torch_extensions/py310_cu124/fused"
    extension = JitExtension(
        name="fused",
        folder=folder,
        cache_tag="py310_cu124",
        library=f"{folder}/fused.so",
        gencode=parse_arch_list(gencode),
        torch_include=f"{SITE_PACKAGES}/torch/include",
        lock_age_seconds=None,
    )
    return replace(extension, **changes)


# --- the loader --------------------------------------------------------------------------------------------------


def a_loader(*failed: FailedLoad, **changes: Any) -> Loader:
    """A process of Python 3.10 on Ubuntu 22.04 that loads all libraries but those given."""
    loader = Loader(
        library_path=(),
        preload=(),
        glibc="2.35",
        torch=None,
        torch_process=(),
        overridden=(),
        asked=217,
        failed=failed,
    )
    return replace(loader, **changes)


def a_failed_load(failure: LoadFailure, **changes: Any) -> FailedLoad:
    """The extension of `mmcv`, which `import mmcv` imports after torch."""
    library = f"{SITE_PACKAGES}/mmcv/_ext.cpython-310-x86_64-linux-gnu.so"
    failed = FailedLoad(
        library=library,
        module="mmcv._ext",
        distribution="mmcv",
        needs_torch=True,
        after_torch=True,
        way=LoadWay.WITH_PACKAGE,
        import_chain=("mmcv/__init__.py:7", "mmcv/ops/__init__.py:3"),
        preloads=(),
        failure=replace(failure, file=failure.file or changes.get("library", library)),
    )
    return replace(failed, **changes)


def an_extension_of_another_torch(distribution: str, **changes: Any) -> FailedLoad:
    """The extension `_C` of a distribution, which was built for another torch."""
    library = f"{SITE_PACKAGES}/{distribution}/_C.so"
    return a_failed_load(
        a_missing_symbol("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", file=library),
        **{"library": library, "module": f"{distribution}._C", "distribution": distribution} | changes,
    )


def a_failed_load_from_the_cache(failure: LoadFailure) -> FailedLoad:
    """The extension of nvdiffrast, which torch compiled for itself."""
    library = "/home/user/.cache/torch_extensions/py310_cu124/nvdiffrast_plugin/nvdiffrast_plugin.so"
    return a_failed_load(
        failure,
        library=library,
        module="nvdiffrast_plugin",
        distribution="",
        way=LoadWay.CACHED,
        import_chain=(),
    )


def a_missing_library(name: str = "libcudart.so.11.0", **changes: Any) -> LoadFailure:
    """No folder that is searched has the library."""
    failure = LoadFailure(
        words=f"{name}: cannot open shared object file: No such file or directory",
        fault=LoadFault.LIBRARY,
        file="",
        name=name,
    )
    return replace(failure, **changes)


def a_missing_version(name: str, provider: LoadedLibrary, **changes: Any) -> LoadFailure:
    """A library that is found lacks a symbol version."""
    words = f"{provider.path}: version `{name}' not found (required by {SITE_PACKAGES}/mmcv/_ext.so)"
    failure = LoadFailure(words=words, fault=LoadFault.VERSION, file="", name=name, provider=provider)
    return replace(failure, **changes)


def a_missing_symbol(name: str, **changes: Any) -> LoadFailure:
    """No library of the process defines the symbol."""
    version = f", version {changes['symbol_version']}" if changes.get("symbol_version") else ""
    file = changes.get("file", f"{SITE_PACKAGES}/mmcv/_ext.cpython-310-x86_64-linux-gnu.so")
    failure = LoadFailure(
        words=f"{file}: undefined symbol: {name}{version}",
        fault=LoadFault.SYMBOL,
        file=file,
        name=name,
        undefined=(name,),
    )
    return replace(failure, **changes)


def a_damaged_file(says: str = "file too short", **changes: Any) -> LoadFailure:
    """The loader cannot make sense of the library that it opens."""
    file = changes.get("file", f"{SITE_PACKAGES}/mmcv/_ext.cpython-310-x86_64-linux-gnu.so")
    return replace(LoadFailure(words=f"{file}: {says}", fault=LoadFault.FILE, file=file, name=""), **changes)


def a_loaded_library(path: str, **changes: Any) -> LoadedLibrary:
    """A library that RUNPATH leads to."""
    folder, _, name = path.rpartition("/")
    library = LoadedLibrary(name=name, path=path, found_through="RUNPATH", folder=folder, needed_by="")
    return replace(library, **changes)


def an_overridden_library(name: str, taken_version: str, own_version: str, **changes: Any) -> OverriddenLibrary:
    """A library of an nvidia-* wheel in place of which LD_LIBRARY_PATH brings the one of a CUDA of the system."""
    folder = "/usr/local/cuda-12.1/lib64"
    library = OverriddenLibrary(
        taken=a_loaded_library(f"{folder}/{name}", found_through="LD_LIBRARY_PATH"),
        own=f"{SITE_PACKAGES}/nvidia/cuda/lib/{name}",
        taken_version=taken_version,
        own_version=own_version,
        same_content=False,
    )
    return replace(library, **changes)


def a_foreign_module(**changes: Any) -> ForeignModule:
    """The extension of `mmcv` for Python 3.8, which `import mmcv` imports."""
    tag = "cpython-38-x86_64-linux-gnu"
    module = ForeignModule(
        library=f"{SITE_PACKAGES}/mmcv/_ext.{tag}.so",
        module="mmcv._ext",
        tag=tag,
        distribution="mmcv",
        import_chain=("mmcv/ops/__init__.py:3",),
    )
    return replace(module, **changes)


# --- the machine -------------------------------------------------------------------------------------------------


def a_host(**changes: Any) -> Host:
    """A bare-metal Ubuntu machine with one RTX 4090."""
    host = Host(
        system="Linux",
        machine="x86_64",
        linux_release="5.15.0-105-generic",
        distribution="Ubuntu 22.04.4 LTS",
        glibc="2.35",
        libstdcxx="GLIBCXX_3.4.30",
        container="",
        container_evidence="",
        wsl=False,
        device_nodes=(
            DeviceNode(path="/dev/nvidia0", openable=True),
            DeviceNode(path="/dev/nvidiactl", openable=True),
            DeviceNode(path="/dev/nvidia-uvm", openable=True),
        ),
        pci_gpus=(PciGpu(address="0000:01:00.0", device_id="2684", driver="nvidia"),),
        cuda_libraries=(),
        shm_total=32 << 30,
        shm_free=32 << 30,
        cpu_count=16,
        total_memory=64 << 30,
        mps_directory="",
    )
    return replace(host, **changes)


def a_cuda_library(version: str = "550.54.15", soname: str = "libcuda.so.1", **changes: Any) -> CudaLibrary:
    """The driver's own libcuda, found through the loader's cache."""
    library = CudaLibrary(
        soname=soname,
        path=f"/usr/lib/x86_64-linux-gnu/{soname.removesuffix('1')}{version}",
        release=DriverRelease.parse(version),
        found_through="ld.so.cache",
        is_compat=False,
    )
    return replace(library, **changes)


def a_compat_library(version: str = "550.54.15", **changes: Any) -> CudaLibrary:
    """The libcuda of NVIDIA's forward-compatibility package."""
    compat: dict[str, Any] = {"path": f"/usr/local/cuda/compat/libcuda.so.{version}", "is_compat": True}
    return replace(a_cuda_library(version), **compat | changes)


def variables(**values: str) -> tuple[Variable, ...]:
    """Environment variables: ``variables(CUDA_VISIBLE_DEVICES="0,1")``."""
    return tuple(Variable(name=name, value=value) for name, value in values.items())


def healthy_facts(**changes: Any) -> Facts:
    """An RTX 4090 with driver 550 and torch 2.6.0+cu124: nothing is wrong."""
    facts = Facts(
        environment=an_environment(),
        distributions=(a_distribution("torch", "2.6.0"),),
        torch=a_torch(),
        triton=a_triton(),
        device_code=(a_torch_library(TORCH_ARCH_LIST),),
        cpu_only_extensions=(),
        jit_extensions=(),
        damaged_installations=(),
        contested_projects=(),
        shadowed_modules=(),
        launchers=(),
        gpus=(a_gpu("8.9"),),
        nvml=an_nvml_session(),
        driver=a_driver("550.54.15", cuda_version=CudaVersion(12, 4)),
        peer_access=(),
        host=a_host(),
        variables=(),
        toolchain=Toolchain(toolkits=(), compilers=()),
    )
    return replace(facts, **changes)
