"""Under WSL the loader does not find the driver of Windows."""

from envdoctor.model.facts import Host, NvmlSession
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import LIBCUDA, NvmlReturn, winning_library

_BY_NOBODY = "wsl"  # `CudaLibrary.found_through` of what lies in /usr/lib/wsl/lib and is on no path of the loader


@rule("ED130", Severity.ERROR, "programs do not find the driver of Windows under WSL")
def unfound_wsl_driver(nvml: NvmlSession, host: Host) -> Conclusions:
    """
    ## What it means
    Under WSL 2 the GPU is driven by Windows, and its `libcuda.so.1` lies in `/usr/lib/wsl/lib`. The loader does not
    look there, so `torch.cuda.is_available()` is False although the driver is there.

    ## How envdoctor knows
    The kernel is Microsoft's, `libcuda.so.1` exists in `/usr/lib/wsl/lib` and neither in `LD_LIBRARY_PATH` nor in the
    loader's cache or its default folders, and NVML could not be loaded either.

    ## Why it happens
    WSL writes `/etc/ld.so.conf.d/ld.wsl.conf` and calls `ldconfig` when it starts, unless `/etc/wsl.conf` says
    `ldconfig=false` or the distribution has no such cache (NixOS).

    ## How to fix it
    Put the folder into `LD_LIBRARY_PATH`. Do not install a Linux driver inside WSL (ED120).
    Source: https://docs.nvidia.com/cuda/wsl-user-guide/

    ## When to ignore it
    When the job runs without a GPU.
    """
    if not host.wsl or host.container:
        yield NotApplicable("this is not WSL itself")
        return
    libcuda = winning_library(host, LIBCUDA)
    is_nvml_found = nvml.init.number != NvmlReturn.LIBRARY_NOT_FOUND
    if libcuda is None or libcuda.found_through != _BY_NOBODY or is_nvml_found:
        return
    yield Finding(
        message=f"programs do not find {libcuda.path}, the libcuda of Windows, under WSL",
        evidence=(
            Evidence(source="WSL", value=libcuda.path),
            Evidence(source="loader", value=f"no {LIBCUDA} in LD_LIBRARY_PATH, ld.so.cache and the default folders"),
            Evidence(source=nvml.library, value=f"{nvml.init.name} ({nvml.init.number})"),
            Evidence(source="/proc/sys/kernel/osrelease", value=host.linux_release),
        ),
        remedy=Remedy(
            summary="put the folder of WSL on the loader's path",
            commands=("export LD_LIBRARY_PATH=/usr/lib/wsl/lib",),
        ),
    )
