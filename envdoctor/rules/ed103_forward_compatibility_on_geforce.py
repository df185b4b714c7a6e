"""A libcuda newer than the driver is first on the loader's path of a machine with GeForce cards (CUDA error 804)."""

from envdoctor.model.facts import CudaLibrary, Driver, Gpu, Host
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._alike import describe, indices
from envdoctor.rules._machine import forward_library, is_geforce


@rule("ED103", Severity.ERROR, "a GeForce card is used with a libcuda newer than the driver")
def forward_compatibility_on_geforce(gpus: tuple[Gpu, ...], driver: Driver, host: Host) -> Conclusions:
    """
    ## What it means
    The `libcuda.so.1` that programs load here is newer than the driver's kernel module. That is NVIDIA's forward
    compatibility (the `cuda-compat` package), and it works on data-centre cards only. On a GeForce every CUDA program
    ends with `Error 804: forward compatibility was attempted on non supported HW`.

    ## How envdoctor knows
    It follows the loader to the first `libcuda.so.1`, whose file name tells its release, and compares that with the
    kernel module's. NVML tells that the card is a GeForce.

    ## Why it happens
    Images such as `nvidia/cuda` bring `/usr/local/cuda/compat`. On hosts with an older driver it ends up before the
    driver's own library: through `LD_LIBRARY_PATH`, a file in `/etc/ld.so.conf.d`, or the container's runtime.

    ## How to fix it
    Take the `compat` folder out of the loader's path, so that the driver's own library is found. If the driver is
    then too old for the environment (ED101), use a host with a newer driver or a torch build for an older CUDA.

    ## When to ignore it
    When the job runs in another container or with another `LD_LIBRARY_PATH` than `envdoctor` did.
    """
    geforce = tuple(gpu for gpu in gpus if is_geforce(gpu) and not gpu.is_named)
    if not geforce:
        yield NotApplicable("no GeForce card is here")
        return
    release = driver.release_version
    libcuda = forward_library(host, release) if isinstance(release, DriverRelease) else None
    if libcuda is None:
        return
    for name in dict.fromkeys(gpu.name for gpu in geforce):
        alike = tuple(gpu for gpu in geforce if gpu.name == name)
        yield Finding(
            message=f"{libcuda.path} is newer than the driver, which {describe(alike)} cannot use",
            evidence=(
                Evidence(source=f"loader, {libcuda.found_through}", value=f"libcuda of release {libcuda.release}"),
                Evidence(source=driver.source, value=f"driver {release}"),
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
        summary="use an image for an older CUDA or a host with a newer driver; or take `compat` out of the loader's "
        "path: delete the file that this names, and run ldconfig",
        commands=("grep -rl /compat /etc/ld.so.conf.d",),
    )
