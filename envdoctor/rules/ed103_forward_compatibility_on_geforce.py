"""The forward-compatibility libcuda is first on the loader's path of a machine with GeForce cards (CUDA error 804)."""

from envdoctor.model.facts import CudaLibrary, Driver, Gpu, Host
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._alike import describe, indices
from envdoctor.rules._machine import LIBCUDA, is_geforce, winning_library


@rule("ED103", Severity.ERROR, "the forward-compatibility libcuda is used on a GeForce card")
def forward_compatibility_on_geforce(gpus: tuple[Gpu, ...], driver: Driver, host: Host) -> Conclusions:
    """
    ## What it means
    The `libcuda.so.1` that programs load here comes from NVIDIA's forward-compatibility package (`cuda-compat`),
    which runs a newer CUDA on an older kernel module. It does so on data-centre cards only. On a GeForce every CUDA
    program ends with `Error 804: forward compatibility was attempted on non supported HW`.

    ## How envdoctor knows
    It follows the loader: the first `libcuda.so.1` on its path is one of a `compat` folder and is of a newer release
    than the kernel module. NVML tells that the card is a GeForce.

    ## Why it happens
    Images such as `nvidia/cuda` bring `/usr/local/cuda/compat`. On hosts with an older driver it ends up before the
    driver's own library, through `LD_LIBRARY_PATH` or a file in `/etc/ld.so.conf.d`.

    ## How to fix it
    Take the `compat` folder out of the loader's path, so that the driver's own library is found. If the driver is
    then too old for the environment (ED101), use a host with a newer driver or a torch build for an older CUDA.

    ## When to ignore it
    When the job runs in another container or with another `LD_LIBRARY_PATH` than `envdoctor` did.
    """
    libcuda = winning_library(host, LIBCUDA)
    geforce = tuple(gpu for gpu in gpus if is_geforce(gpu) and not gpu.is_named)
    if not geforce:
        yield NotApplicable("no GeForce card is here")
        return
    if libcuda is None or not libcuda.is_compat or not isinstance(libcuda.release, DriverRelease):
        return
    if not isinstance(driver.release_version, DriverRelease) or libcuda.release <= driver.release_version:
        return
    for name in dict.fromkeys(gpu.name for gpu in geforce):
        alike = tuple(gpu for gpu in geforce if gpu.name == name)
        yield Finding(
            message=f"the forward-compatibility library {libcuda.path} does not work with {describe(alike)}",
            evidence=(
                Evidence(
                    source=f"loader, {libcuda.found_through}", value=f"{libcuda.path} of release {libcuda.release}"
                ),
                Evidence(source=driver.source, value=f"driver {driver.release_version}"),
                Evidence(source=alike[0].source, value=f"{name}: forward compatibility is for data-centre cards"),
            ),
            remedy=_remedy(libcuda),
            gpus=indices(alike),
        )


def _remedy(libcuda: CudaLibrary) -> Remedy:
    if libcuda.found_through == "LD_LIBRARY_PATH":
        return Remedy(
            summary="start the job without the `compat` folder in LD_LIBRARY_PATH, or on a host with a newer driver",
            commands=(
                "export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -v /compat | paste -sd:)",
            ),
        )
    return Remedy(
        summary="delete the file that these lines name and run ldconfig, or use a host with a newer driver",
        commands=("grep -rl /compat /etc/ld.so.conf.d",),
    )
