"""NVML does not start, for a reason that no other rule knows."""

from envdoctor.model.facts import Host, NvmlSession
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import NvmlReturn, refused_driver_nodes

_HAVE_THEIR_RULES = frozenset(
    {
        NvmlReturn.SUCCESS,
        NvmlReturn.DRIVER_NOT_LOADED,  # ED105, ED106
        NvmlReturn.LIBRARY_NOT_FOUND,  # ED104, ED107
        NvmlReturn.LIB_RM_VERSION_MISMATCH,  # ED102
    }
)


@rule("ED126", Severity.WARNING, "NVML does not start")
def silent_nvml(nvml: NvmlSession, host: Host | None = None) -> Conclusions:
    """
    ## What it means
    NVIDIA's management library is here but does not start, so nothing is known about the GPUs. `nvidia-smi` fails in
    the same way. CUDA programs most likely fail too.

    ## How envdoctor knows
    `nvmlInit` returned an error, and none of the causes that `envdoctor` can prove is there.

    ## Why it happens
    The driver is in a bad state: after a crash, an upgrade, or a suspend. In a container: the device rules were lost.

    ## How to fix it
    In a container: create it anew. On the host: reboot. On a rented machine: take another one.

    ## When to ignore it
    When CUDA programs run all the same.
    """
    if nvml.init.number in _HAVE_THEIR_RULES or (host and refused_driver_nodes(host)):
        return
    in_container = host is not None and host.container
    yield Finding(
        message=f"NVML does not start: {nvml.init.name} ({nvml.init.number})",
        evidence=(Evidence(source=nvml.library, value=f"nvmlInit: {nvml.init.name} ({nvml.init.number})"),),
        remedy=Remedy(
            summary="create the container anew" if in_container else "reboot the host, or take another one",
            commands=("nvidia-smi",),
            needs_admin=not in_container,
        ),
    )
