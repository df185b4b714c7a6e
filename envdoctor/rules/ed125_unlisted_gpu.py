"""A GPU on the PCI bus that the loaded driver does not list."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Driver, Gpu, Host, NvmlSession
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import gpu_nodes, is_blackwell, unlisted_pci_gpus


@rule("ED125", Severity.WARNING, "the driver does not list a GPU that is on the PCI bus")
def unlisted_gpu(
    nvml: NvmlSession, gpus: tuple[Gpu, ...], host: Host, kb: KnowledgeBase, driver: Driver | None = None
) -> Conclusions:
    """
    ## What it means
    The kernel sees an NVIDIA GPU and gave it to the NVIDIA driver, but the driver could not start it: NVML does not
    list it and CUDA does not see it. If it is the only one, `nvidia-smi` says `No devices were found`.

    ## How envdoctor knows
    It compares the addresses in `/sys/bus/pci/devices` with those that NVML lists. Containers and jobs that were
    given only some of the GPUs are left out.

    ## Why it happens
    The GPU's firmware did not start (`RmInitAdapter failed` in the kernel's log), the card lacks power, or it fell off
    the bus at boot. Blackwell cards also want Resizable BAR and Above 4G Decoding switched on in the BIOS.

    ## How to fix it
    The owner of the host reads the kernel's log and reboots; on a rented machine take another.

    ## When to ignore it
    When the GPU was taken out of use on purpose.
    """
    if host.container or not all(node.openable for node in gpu_nodes(host)):
        yield NotApplicable("this container or job may have been given only some of the GPUs")
        return
    # Blackwell under the proprietary module is the business of ED118.
    is_proprietary = driver is not None and driver.open_module is False
    silent = [
        gpu
        for gpu in unlisted_pci_gpus(host, gpus)
        if gpu.driver == "nvidia" and not (is_proprietary and is_blackwell(gpu, kb))
    ]
    if not silent:
        return
    bios = "; Blackwell cards want Resizable BAR and Above 4G Decoding switched on in the BIOS"
    yield Finding(
        message=f"the driver does not list the GPU at {', '.join(gpu.address for gpu in silent)}",
        evidence=(
            *(
                Evidence(source=f"/sys/bus/pci/devices/{gpu.address}", value=f"10de:{gpu.device_id}, driver `nvidia`")
                for gpu in silent
            ),
            Evidence(source=nvml.library, value=f"nvmlDeviceGetCount: {nvml.device_count}"),
        ),
        remedy=Remedy(
            summary="the owner of the host reads why the driver could not start it, and reboots"
            + (bios if any(is_blackwell(gpu, kb) for gpu in silent) else ""),
            commands=("sudo dmesg | grep -i -e NVRM -e Xid",),
            needs_admin=True,
        ),
    )
