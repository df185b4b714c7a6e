"""GPUs are on the PCI bus, but no NVIDIA kernel module drives them."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Host, NvmlSession, PciGpu, TorchBuild, Unavailable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import NvmlReturn, gpu_nodes, is_blackwell, pci_gpus, wants_cuda


@rule("ED105", Severity.ERROR, "GPUs are here, but the NVIDIA driver is not loaded")
def driver_not_loaded(nvml: NvmlSession, host: Host, kb: KnowledgeBase, torch: TorchBuild | None = None) -> Conclusions:
    """
    ## What it means
    The machine has NVIDIA GPUs, but the `nvidia` kernel module is not loaded, so no CUDA program can use them.

    ## How envdoctor knows
    The GPUs are listed in `/sys/bus/pci/devices`. NVML answers `NVML_ERROR_DRIVER_NOT_LOADED`, or there is no NVML at
    all and another kernel driver, or none, is bound to the GPUs. GPUs that are handed to virtual machines (`vfio-pci`)
    do not count.

    ## Why it happens
    No driver is installed and the kernel's own `nouveau` drives the display. The kernel was updated and the module
    was not built for it (DKMS, Secure Boot). Or the module refuses the card: Blackwell cards need the open kernel
    modules, old cards an older driver.

    ## How to fix it
    The owner of the host installs the driver and loads it. Nothing inside a container or an environment can help.

    ## When to ignore it
    When the job runs without a GPU.
    """
    if not wants_cuda(torch):
        yield NotApplicable("torch is a build without CUDA")
        return
    if nvml.init.number not in {NvmlReturn.DRIVER_NOT_LOADED, NvmlReturn.LIBRARY_NOT_FOUND}:
        return
    if isinstance(host.pci_gpus, Unavailable) and gpu_nodes(host):
        yield Undecided(f"whether the driver of a GPU is loaded: {host.pci_gpus.reason}")
        return
    idle = tuple(gpu for gpu in pci_gpus(host) if gpu.driver != "nvidia")
    if not idle:
        yield NotApplicable("no NVIDIA GPU without its driver is on the PCI bus")
        return
    yield Finding(
        message="NVIDIA GPUs are here, but the NVIDIA driver is not loaded",
        evidence=(
            *(Evidence(source=f"/sys/bus/pci/devices/{gpu.address}", value=_describe(gpu, kb)) for gpu in idle),
            Evidence(source=nvml.library, value=f"{nvml.init.name} ({nvml.init.number})"),
        ),
        remedy=Remedy(summary="; ".join(_advice(idle, kb)), commands=_commands(idle), needs_admin=True),
    )


def _describe(gpu: PciGpu, kb: KnowledgeBase) -> str:
    chip = kb.chip(gpu.device_id)
    bound = f"bound to `{gpu.driver}`" if gpu.driver else "no kernel driver"
    return f"NVIDIA {chip.chip if chip else 'device'} [10de:{gpu.device_id}], {bound}"


def _advice(idle: tuple[PciGpu, ...], kb: KnowledgeBase) -> Iterator[str]:
    if any(gpu.driver == "nouveau" for gpu in idle):
        yield "the owner of the host installs the NVIDIA driver, which takes the place of `nouveau`, and reboots"
    else:
        yield "the owner of the host loads the NVIDIA driver, or installs it for the running kernel"
    if any(is_blackwell(gpu, kb) for gpu in idle):
        yield "Blackwell cards need its open kernel modules"
    for chip in dict.fromkeys(chip for gpu in idle if (chip := kb.chip(gpu.device_id))):
        if last := kb.last_driver_branch(chip.compute_capability):
            yield f"{chip.chip} needs a driver of branch R{last} or older"


def _commands(idle: tuple[PciGpu, ...]) -> tuple[str, ...]:
    return () if any(gpu.driver == "nouveau" for gpu in idle) else ("sudo modprobe nvidia", "nvidia-smi")
