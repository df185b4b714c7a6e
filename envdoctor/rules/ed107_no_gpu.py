"""There is no GPU to judge for."""

from envdoctor.model.facts import Host, NvmlSession, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import (
    LIBCUDA,
    NvmlReturn,
    gpu_nodes,
    gpu_switch,
    pci_gpus,
    wants_cuda,
    winning_library,
)


@rule("ED107", Severity.INFO, "no GPU is here")
def no_gpu(nvml: NvmlSession, host: Host, torch: TorchBuild | None = None) -> Conclusions:
    """
    ## What it means
    This machine, container or job has no NVIDIA GPU. What depends on a GPU was not judged.

    ## How envdoctor knows
    NVML starts and counts no GPU; or NVML is missing or finds no driver, and there are neither `/dev/nvidia*` nodes
    nor NVIDIA GPUs on the PCI bus, other than those of a container's host.

    ## Why it happens
    A login node, a CPU machine, a job or a container that asked for no GPU.

    ## How to fix it
    Name the card that the job will get: `envdoctor check --gpu 4090`. Or run `envdoctor` inside the job. A container
    gets the GPUs of its host with `--gpus all`.

    ## When to ignore it
    When the environment is prepared here and used elsewhere.
    """
    if nvml.init.number == NvmlReturn.SUCCESS and nvml.device_count == 0:
        # Cards that the driver should list but does not are the business of ED118 and ED125.
        if pci_gpus(host) and not host.container:
            return
        message = "NVML counts no GPU here"
        evidence = Evidence(source=nvml.library, value="nvmlDeviceGetCount: 0")
    elif nvml.init.number in {NvmlReturn.LIBRARY_NOT_FOUND, NvmlReturn.DRIVER_NOT_LOADED}:
        if gpu_nodes(host) or _has_driver_of_windows(host) or _has_gpus_of_its_own(host, torch):
            return
        message = "no NVIDIA GPU and no driver are here"
        evidence = Evidence(source=nvml.library, value=f"{nvml.init.name} ({nvml.init.number})")
    else:
        return
    yield Finding(
        message=message,
        evidence=(evidence, Evidence(source="/sys/bus/pci/devices", value=_describe_bus(host))),
        remedy=_remedy(host),
    )


def _remedy(host: Host) -> Remedy:
    named = "name the card that the job will get: add `--gpu 4090`, say, to this command"
    given = f"; or start the container with {gpu_switch(host)}, if its host has one" if host.container else ""
    return Remedy(summary=named + given)


def _has_driver_of_windows(host: Host) -> bool:
    """Whether Windows has a driver for WSL; whether it can be found there, ED120 and ED130 say."""
    return host.wsl and winning_library(host, LIBCUDA) is not None


def _has_gpus_of_its_own(host: Host, torch: TorchBuild | None) -> bool:
    """Whether GPUs on the bus are more than those of the host of a container; ED104 speaks when torch wants them."""
    is_kept_from_them = host.container and (torch is None or not wants_cuda(torch))
    return bool(pci_gpus(host)) and not is_kept_from_them


def _describe_bus(host: Host) -> str:
    if not isinstance(host.pci_gpus, tuple):
        return host.pci_gpus.reason
    if host.pci_gpus:
        return f"{len(host.pci_gpus)} NVIDIA GPUs of the host, none given to this container"
    return "no NVIDIA GPU"
