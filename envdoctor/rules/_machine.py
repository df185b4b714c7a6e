"""What the rules about driver and machine ask of the facts: hardware, libraries that win, NVML's return values."""

import re
from enum import IntEnum

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import CudaLibrary, DeviceNode, Gpu, Host, PciGpu, TorchBuild, TorchFlavour
from envdoctor.model.versions import DriverRelease

LIBCUDA = "libcuda.so.1"
LIBNVML = "libnvidia-ml.so.1"

CONTROL_NODE = "/dev/nvidiactl"

_DRIVER_NODES = frozenset({CONTROL_NODE, "/dev/nvidia-uvm"})
_REFUSALS = frozenset({"EPERM", "EACCES"})
_SWITCHES = {
    "apptainer": "`--nv`",
    "kubernetes": "`nvidia.com/gpu` among its resource limits",
    "podman": "`--device nvidia.com/gpu=all`",
}
# Kernel drivers that hand a GPU to a virtual machine: this machine is not meant to use it.
_PASSED_THROUGH = frozenset({"vfio-pci", "pci-stub", "pciback"})


class NvmlReturn(IntEnum):
    """Return values of NVML that tell what is wrong (nvml.h, `nvmlReturn_t`)."""

    SUCCESS = 0
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18


def winning_library(host: Host, soname: str) -> CudaLibrary | None:
    """Return the file that the loader takes for *soname*."""
    return next((library for library in host.cuda_libraries if library.soname == soname), None)


def forward_library(host: Host, driver: DriverRelease) -> CudaLibrary | None:
    """Return the libcuda that wins, if it is newer than the driver: then CUDA attempts forward compatibility.

    The folder does not tell: container runtimes mount the library of `compat` among the driver's own.
    """
    libcuda = winning_library(host, LIBCUDA)
    if libcuda is None or not isinstance(libcuda.release, DriverRelease):
        return None
    return libcuda if libcuda.release > driver else None


def gpu_nodes(host: Host) -> tuple[DeviceNode, ...]:
    """Return the device nodes of GPUs: ``/dev/nvidia0``, ``/dev/nvidia1``, ..."""
    return tuple(node for node in host.device_nodes if re.fullmatch(r"/dev/nvidia\d+", node.path))


def pci_gpus(host: Host) -> tuple[PciGpu, ...]:
    """Return the NVIDIA GPUs on the PCI bus that are not handed to virtual machines; none where it cannot be read."""
    on_the_bus = host.pci_gpus if isinstance(host.pci_gpus, tuple) else ()
    return tuple(gpu for gpu in on_the_bus if gpu.driver not in _PASSED_THROUGH)


def unlisted_pci_gpus(host: Host, gpus: tuple[Gpu, ...]) -> tuple[PciGpu, ...]:
    """Return the GPUs of the PCI bus that NVML does not list; none where it lists one without its address."""
    if not all(gpu.pci_bus_id for gpu in gpus):
        return ()
    listed = {_normal_address(gpu.pci_bus_id) for gpu in gpus}
    return tuple(gpu for gpu in pci_gpus(host) if _normal_address(gpu.address) not in listed)


def is_blackwell(gpu: PciGpu, kb: KnowledgeBase) -> bool:
    """Whether a card carries a Blackwell chip, by its PCI device number."""
    chip = kb.chip(gpu.device_id)
    return chip is not None and kb.architecture(chip.compute_capability) == "Blackwell"


def refused_driver_nodes(host: Host) -> tuple[DeviceNode, ...]:
    """Return the nodes that every CUDA program opens and this process may not: the driver's and unified memory's."""
    return tuple(node for node in host.device_nodes if node.path in _DRIVER_NODES and node.error in _REFUSALS)


def gpu_switch(host: Host) -> str:
    """Return what gives a container of this kind the GPUs of its host."""
    return _SWITCHES.get(host.container, "`--gpus all`")


def wants_cuda(torch: TorchBuild | None) -> bool:
    """Whether a GPU is of use to the environment: a torch without CUDA leaves it alone."""
    return torch is None or torch.flavour is TorchFlavour.CUDA


def is_geforce(gpu: Gpu) -> bool:
    """Whether a card is of the consumer line, by NVML's brand or by its name."""
    return gpu.brand.startswith("GEFORCE") or "GeForce" in gpu.name


def _normal_address(address: str) -> str:
    """Write a PCI address as sysfs does: NVML gives the domain eight digits, sysfs four."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
