"""This process cannot open the device nodes of the driver: a container that lost its GPUs, or file permissions."""

from envdoctor.model.facts import DeviceNode, Host, NvmlSession, TorchBuild
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import (
    CONTROL_NODE,
    NvmlReturn,
    gpu_switch,
    pci_gpus,
    refused_driver_nodes,
    wants_cuda,
)


@rule("ED106", Severity.ERROR, "the driver's device nodes cannot be opened")
def inaccessible_driver_nodes(nvml: NvmlSession, host: Host, torch: TorchBuild | None = None) -> Conclusions:
    """
    ## What it means
    The NVIDIA driver is loaded, but this process cannot open its device nodes. CUDA programs find no GPU;
    `nvidia-smi` says `Failed to initialize NVML: Unknown Error` or `Insufficient Permissions`.

    ## How envdoctor knows
    It tries to open `/dev/nvidiactl` and `/dev/nvidia-uvm`. `EPERM` is the container's device rule (cgroup), `EACCES`
    the file's own permission. Or the control node does not exist at all although GPUs are bound to the driver.

    ## Why it happens
    In a container that worked before: systemd reloaded its units on the host (`systemctl daemon-reload`), which drops
    the device rules of running containers. In one that never worked: it was not given the devices. Outside of
    containers: the nodes belong to a group that the user is not in.

    ## How to fix it
    Create the container anew, with `--gpus all`. For a lasting cure the host uses the `cgroupfs` driver, or passes the
    nodes with `--device`: https://github.com/NVIDIA/nvidia-container-toolkit/issues/48. For file permissions ask the
    owner of the host.

    ## When to ignore it
    When the job runs without a GPU.
    """
    if not wants_cuda(torch):
        yield NotApplicable("torch is a build without CUDA")
        return
    refused = refused_driver_nodes(host)
    missing = _is_control_node_missing(nvml, host)
    if not refused and not missing:
        return
    facts = [Evidence(source=node.path, value=f"open: {node.error}") for node in refused]
    if missing:
        facts.append(Evidence(source=CONTROL_NODE, value="does not exist, though GPUs are bound to `nvidia`"))
    facts.append(Evidence(source=nvml.library, value=f"nvmlInit: {nvml.init.name} ({nvml.init.number})"))
    if host.container:
        facts.append(Evidence(source=host.container_evidence, value=f"container: {host.container}"))
    nodes = CONTROL_NODE if missing else " and ".join(node.path for node in refused)
    yield Finding(
        message=f"this process cannot open {nodes} of the NVIDIA driver",
        evidence=tuple(facts),
        remedy=_remedy(host, refused),
    )


def _is_control_node_missing(nvml: NvmlSession, host: Host) -> bool:
    is_bound = any(gpu.driver == "nvidia" for gpu in pci_gpus(host))
    is_there = any(node.path == CONTROL_NODE for node in host.device_nodes)
    return nvml.init.number == NvmlReturn.DRIVER_NOT_LOADED and is_bound and not is_there


def _remedy(host: Host, refused: tuple[DeviceNode, ...]) -> Remedy:
    if any(node.error == "EACCES" for node in refused):
        return Remedy(
            summary="the owner of the host lets the user open the nodes: see their group and mode",
            commands=("ls -l /dev/nvidiactl /dev/nvidia-uvm", "id"),
            needs_admin=True,
        )
    if host.container:
        return Remedy(
            summary=f"create the container anew with {gpu_switch(host)}; unless it gets the nodes by `--device`, "
            "it may lose them again when systemd reloads on the host"
        )
    if refused:
        return Remedy(summary="run in a job that asked for GPUs: this one's device rules (cgroup) deny them")
    return Remedy(
        summary="create the device nodes", commands=("sudo nvidia-modprobe -c 0 -u", "nvidia-smi"), needs_admin=True
    )
