"""GPUs are visible, the driver's libraries are not: a container without the driver's user-space half."""

from envdoctor.model.facts import Host, NvmlSession, TorchBuild
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import (
    LIBCUDA,
    LIBNVML,
    NvmlReturn,
    gpu_nodes,
    gpu_switch,
    pci_gpus,
    wants_cuda,
    winning_library,
)


@rule("ED104", Severity.ERROR, "GPUs are visible, but the driver's libraries are missing")
def missing_driver_libraries(nvml: NvmlSession, host: Host, torch: TorchBuild) -> Conclusions:
    """
    ## What it means
    A GPU with a loaded driver is there, but `libcuda.so.1`, through which every CUDA program talks to it, is not.
    torch then says `Found no NVIDIA driver on your system` and `torch.cuda.is_available()` is False.

    ## How envdoctor knows
    `/dev/nvidia*` nodes exist, or GPUs on the PCI bus are bound to the `nvidia` kernel driver, while the loader finds
    no `libcuda.so.1` in `LD_LIBRARY_PATH`, its cache or its default folders.

    ## Why it happens
    The container was started without the NVIDIA runtime: no `--gpus all`, a compose file without a device
    reservation, or `--privileged` alone, which gives the devices but no libraries. Or
    `NVIDIA_DRIVER_CAPABILITIES` lacks `compute`.

    ## How to fix it
    Start the container with `--gpus all` and the NVIDIA Container Toolkit on the host (apptainer: `--nv`). Do not
    install a driver inside the container: it would not match the host's kernel module (ED102).

    ## When to ignore it
    When this container is not meant to use the GPUs of its host.
    """
    if not wants_cuda(torch):
        yield NotApplicable("torch is a build without CUDA")
        return
    missing = [soname for soname in (LIBCUDA, LIBNVML) if winning_library(host, soname) is None]
    nvml_is_here = LIBNVML not in missing
    if LIBCUDA not in missing or not (nvml_is_here or nvml.init.number == NvmlReturn.LIBRARY_NOT_FOUND):
        return
    hardware = tuple(_hardware(host))
    if not hardware:
        yield NotApplicable("no NVIDIA GPU with a loaded driver is visible")
        return
    yield Finding(
        message=f"GPUs are visible, but the driver's libraries are missing: {', '.join(missing)}",
        evidence=(
            *hardware,
            Evidence(source="loader", value=f"no {LIBCUDA} in LD_LIBRARY_PATH, ld.so.cache and the default folders"),
            Evidence(source=f"{torch.root}/version.py", value=f"torch {torch.version}"),
        ),
        remedy=_remedy(host, nvml_is_here=nvml_is_here),
    )


def _hardware(host: Host) -> tuple[Evidence, ...]:
    nodes = gpu_nodes(host)
    bound = [gpu.address for gpu in pci_gpus(host) if gpu.driver == "nvidia"]
    found = []
    if nodes:
        found.append(Evidence(source="/dev", value=", ".join(node.path for node in nodes)))
    if bound:
        found.append(Evidence(source="/sys/bus/pci/devices", value=f"bound to `nvidia`: {', '.join(bound)}"))
    return tuple(found)


def _remedy(host: Host, *, nvml_is_here: bool) -> Remedy:
    if nvml_is_here:
        return Remedy(
            summary="start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility: `compute` brings libcuda"
        )
    if host.container:
        return Remedy(summary=f"start the container with {gpu_switch(host)}; do not install a driver inside")
    return Remedy(
        summary="install the libraries of exactly the driver release whose kernel module is loaded",
        commands=("cat /proc/driver/nvidia/version",),
        needs_admin=True,
    )
