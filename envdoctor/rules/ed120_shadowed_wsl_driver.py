"""Under WSL a Linux driver's libcuda is found before that of Windows."""

from envdoctor.model.facts import Host
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._machine import LIBCUDA, winning_library

_FOLDER = "/usr/lib/wsl/"


@rule("ED120", Severity.ERROR, "a Linux driver hides the one of Windows under WSL")
def shadowed_wsl_driver(host: Host) -> Conclusions:
    """
    ## What it means
    Under WSL 2 the GPU is driven by Windows, and its `libcuda.so.1` lies in `/usr/lib/wsl/lib`. Here programs load
    another one first: that of a driver for real Linux machines, which finds no GPU under WSL.

    ## How envdoctor knows
    The kernel is Microsoft's, and the first `libcuda.so.1` that the loader finds is outside of `/usr/lib/wsl`, while
    there is one inside.

    ## Why it happens
    `apt install nvidia-driver-...` or the `cuda` meta package (which brings a driver) inside WSL, or an
    `LD_LIBRARY_PATH` that puts another folder first.

    ## How to fix it
    Remove the Linux driver's packages from WSL; never install them there. Until then put `/usr/lib/wsl/lib` first.
    Source: https://docs.nvidia.com/cuda/wsl-user-guide/

    ## When to ignore it
    Never, if the job needs the GPU.
    """
    if not host.wsl or host.container:
        yield NotApplicable("this is not WSL itself")
        return
    winner = winning_library(host, LIBCUDA)
    of_windows = [library for library in host.cuda_libraries if library.path.startswith(_FOLDER)]
    if winner is None or winner in of_windows or not any(library.soname == LIBCUDA for library in of_windows):
        return
    yield Finding(
        message=f"programs load {winner.path} under WSL, not the libcuda of Windows",
        evidence=(
            Evidence(source=f"loader, {winner.found_through}", value=winner.path),
            *(Evidence(source="WSL", value=library.path) for library in of_windows if library.soname == LIBCUDA),
            Evidence(source="/proc/sys/kernel/osrelease", value=host.linux_release),
        ),
        remedy=Remedy(
            summary="remove the Linux driver's packages; until then put the folder of WSL first",
            commands=("dpkg -S libcuda.so.1", "export LD_LIBRARY_PATH=/usr/lib/wsl/lib"),
        ),
    )
