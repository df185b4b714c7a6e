"""The user-space half of the driver and the kernel module are of different releases (CUDA error 803)."""

from collections.abc import Callable

from envdoctor.model.facts import CudaLibrary, Driver, Host, NvmlSession
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.rules._machine import LIBCUDA, LIBNVML, NvmlReturn, winning_library


@rule("ED102", Severity.ERROR, "the driver's libraries and its kernel module are of different releases")
def mismatched_driver_libraries(
    nvml: NvmlSession, driver: Driver | None = None, host: Host | None = None
) -> Conclusions:
    """
    ## What it means
    The NVIDIA driver has two halves: a kernel module, and libraries (`libcuda.so.1`, `libnvidia-ml.so.1`) that
    programs load. They must be of exactly one release. Here they differ, so every CUDA program fails with
    `Error 803: system has unsupported display driver / cuda driver combination`, and `nvidia-smi` with
    `Failed to initialize NVML: Driver/library version mismatch`.

    ## How envdoctor knows
    NVML refuses to start with `NVML_ERROR_LIB_RM_VERSION_MISMATCH` (18), or the file name of the `libcuda.so` that
    the loader takes names an older release than `/sys/module/nvidia/version`. A newer one may be meant: NVIDIA's
    forward compatibility, which ED103 judges.

    ## Why it happens
    The driver was upgraded while its old kernel module stayed loaded, often by unattended upgrades. Or a container
    still has the libraries of the driver that the host had when it was created, or brought its own.

    ## How to fix it
    On the host: reboot, which loads the new kernel module. In a container with older libraries: create it anew, and do
    not install a driver inside; with newer ones the host has to reboot first. On a rented machine ask the host, or
    take another one.

    ## When to ignore it
    Never: no CUDA program runs until the two agree.
    """
    module = driver.module_version if driver and isinstance(driver.module_version, DriverRelease) else None
    refused = nvml.init.number == NvmlReturn.LIB_RM_VERSION_MISMATCH
    strangers = _strangers(host, module) if host and module else ()
    if not refused and not any(_is_stale_libcuda(library, module) for library in strangers):
        return
    evidence = [Evidence(source=library.path, value=f"release {library.release}") for library in strangers]
    if module:
        evidence.append(Evidence(source="kernel module", value=f"release {module}"))
    if refused:
        evidence.append(Evidence(source=nvml.library, value=f"nvmlInit: {nvml.init.name} ({nvml.init.number})"))
    yield Finding(
        message="the driver's libraries and its kernel module are of different releases",
        evidence=tuple(evidence),
        remedy=_remedy(host, are_newer=any(map(_is_newer_than(module), strangers))),
    )


def _strangers(host: Host, module: DriverRelease) -> tuple[CudaLibrary, ...]:
    winners = [winning_library(host, soname) for soname in (LIBCUDA, LIBNVML)]
    return tuple(
        library
        for library in winners
        if library and isinstance(library.release, DriverRelease) and library.release.release != module.release
    )


def _is_stale_libcuda(library: CudaLibrary, module: DriverRelease | None) -> bool:
    """Where NVML started, its library agrees with the module; a newer libcuda may be meant, an older one never is."""
    is_libcuda = library.soname == LIBCUDA
    return is_libcuda and isinstance(library.release, DriverRelease) and module is not None and library.release < module


def _is_newer_than(module: DriverRelease | None) -> Callable[[CudaLibrary], bool]:
    return lambda library: (
        module is not None and isinstance(library.release, DriverRelease) and library.release > module
    )


def _remedy(host: Host | None, *, are_newer: bool) -> Remedy:
    if host and host.container and are_newer:
        return Remedy(
            summary="have the host rebooted if its driver was upgraded; if the image brings libraries of the driver, "
            "take them out of it",
            needs_admin=True,
        )
    if host and host.container:
        return Remedy(
            summary="create the container anew, so that it gets the libraries of the driver that the host has now"
        )
    return Remedy(
        summary="reboot the host, which loads the kernel module of the installed driver",
        commands=("sudo reboot",),
        needs_admin=True,
    )
