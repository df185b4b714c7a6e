"""Blackwell cards under the proprietary kernel module, which does not drive them."""

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Driver, Gpu, Host, NvmlSession
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import is_blackwell, pci_gpus, unlisted_pci_gpus


@rule("ED118", Severity.ERROR, "a Blackwell card needs the open kernel modules")
def proprietary_module_on_blackwell(
    nvml: NvmlSession, gpus: tuple[Gpu, ...], host: Host, driver: Driver, kb: KnowledgeBase
) -> Conclusions:
    """
    ## What it means
    The loaded NVIDIA kernel module is of the proprietary flavour, which ends at Ada and Hopper. Blackwell cards
    (GeForce RTX 50, RTX PRO Blackwell, B200) work with the open flavour of the same driver only. `nvidia-smi` says
    `No devices were found`, though `lspci` shows the card.

    ## How envdoctor knows
    The PCI bus has a card whose device number is that of a Blackwell chip, NVML does not list it, and
    `/proc/driver/nvidia/version` does not say `Open Kernel Module`.

    ## Why it happens
    The proprietary package was installed, or kept from an older card. Distributions name the other one with `-open`.

    ## How to fix it
    The owner of the host installs the open kernel modules of the same driver release and reboots.

    ## When to ignore it
    When the job does not use this card.
    """
    if driver.open_module is not False or not pci_gpus(host):
        yield NotApplicable("no GPU is driven by the proprietary kernel module")
        return
    refused = [gpu for gpu in unlisted_pci_gpus(host, gpus) if is_blackwell(gpu, kb)]
    if not refused:
        return
    yield Finding(
        message="the loaded kernel module does not drive the Blackwell card: it is of the proprietary flavour",
        evidence=(
            *(
                Evidence(source=f"/sys/bus/pci/devices/{gpu.address}", value=f"10de:{gpu.device_id}, a Blackwell chip")
                for gpu in refused
            ),
            Evidence(source=nvml.library, value=f"nvmlDeviceGetCount: {nvml.device_count}, not among them"),
            Evidence(source="/proc/driver/nvidia/version", value=f"proprietary module {driver.module_version}"),
        ),
        remedy=Remedy(
            summary="the owner of the host installs the open kernel modules of the driver (packages named -open)",
            needs_admin=True,
        ),
    )
