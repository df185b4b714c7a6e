"""The machine: system, container, device nodes, PCI bus, driver libraries, memory; and its driver, from all sources."""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.model.facts import (
    Absence,
    DeviceNode,
    Driver,
    Host,
    PciGpu,
    Unavailable,
)
from envdoctor.model.versions import DriverRelease
from envdoctor.probes.driver_libraries import find_driver_libraries, find_library, read_release
from envdoctor.probes.foreign_files import find_files, read_file
from envdoctor.probes.mps import find_mps_directory
from envdoctor.probes.nvml_answer import NO_LIBRARY, NvmlAnswer

ROOT = Path("/")

_NVIDIA = "0x10de"
_DISPLAY_CONTROLLER = "0x03"
_GPU_NODE = re.compile(r"nvidia\d+")
_EVERYBODY = stat.S_IROTH | stat.S_IWOTH

# What the runtimes leave in the root folder; the first that is there decides.
_CONTAINER_FILES = {
    ".singularity.d": "apptainer",
    "var/run/secrets/kubernetes.io": "kubernetes",
    "run/.containerenv": "podman",
    ".dockerenv": "docker",
}
# What they write where /proc shows the control group of the first process, or the file system of the root.
_CONTAINER_WORDS = {
    "kubepods": "kubernetes",
    "libpod": "podman",
    "containers/storage": "podman",
    "docker": "docker",
    "containerd": "containerd",
    "lxc": "lxc",
}
_NO_MODULE = Unavailable("no NVIDIA kernel module is loaded", Absence.NOT_APPLICABLE)
_NO_BANNER = Unavailable("/proc/driver/nvidia/version does not tell")
_NO_DRIVER = Unavailable("no NVIDIA driver here", Absence.NOT_APPLICABLE)


def read_host(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> Host:
    """Read the machine that this process runs on; *root* is the folder that holds `proc`, `sys`, `dev` and the rest."""
    system = os.uname()
    container, container_evidence = _find_container(root, environ)
    linux_release = _read_text(root / "proc/sys/kernel/osrelease") or system.release
    shm_total, shm_free = _read_space(root / "dev" / "shm")
    return Host(
        system=system.sysname,
        machine=system.machine,
        linux_release=linux_release,
        distribution=_read_distribution(root),
        glibc=_read_glibc(),
        libstdcxx=_read_libstdcxx(root, environ),
        container=container,
        container_evidence=container_evidence,
        wsl="microsoft" in linux_release.lower(),
        device_nodes=tuple(_find_device_nodes(root / "dev")),
        pci_gpus=_find_pci_gpus(root / "sys/bus/pci/devices"),
        cuda_libraries=find_driver_libraries(root, environ),
        shm_total=shm_total,
        shm_free=shm_free,
        cpu_count=len(os.sched_getaffinity(0)),
        total_memory=_read_total_memory(root),
        mps_directory=find_mps_directory(root, environ),
    )


def read_driver(host: Host | Unavailable, answer: NvmlAnswer, root: Path = ROOT) -> Driver | Unavailable:
    """Put together what the kernel, NVML and the names of the driver's libraries say; the kernel has the first word."""
    banner = _read_text(root / "proc/driver/nvidia/version")
    told = {
        "/sys/module/nvidia/version": _find_release(r"(\S+)", _read_text(root / "sys/module/nvidia/version")),
        "/proc/driver/nvidia/version": _find_release(r"Kernel Module\s+(?:for \S+\s+)?(\S+)", banner),
    }
    by_kernel = {source: release for source, release in told.items() if release}
    by_nvml = {} if isinstance(answer.driver_release, Unavailable) else {"NVML": answer.driver_release}
    library_version = _read_library_version(host, answer)
    if isinstance(answer.driver_release, Unavailable) and isinstance(library_version, Unavailable) and not by_kernel:
        return answer.driver_release if answer.driver_release != NO_LIBRARY else _NO_DRIVER
    source, release = next(iter((by_kernel | by_nvml).items()), ("NVML", answer.driver_release))
    return Driver(
        release_version=release,
        source=source,
        cuda_version=answer.cuda_version,
        module_version=next(iter(by_kernel.values()), _NO_MODULE),
        library_version=library_version,
        open_module="Open Kernel Module" in banner if banner else _NO_BANNER if by_kernel else _NO_MODULE,
    )


def _find_release(pattern: str, text: str) -> DriverRelease | None:
    found = re.search(pattern, text)
    try:
        return DriverRelease.parse(found[1]) if found else None
    except ValueError:
        return None


def _read_library_version(host: Host | Unavailable, answer: NvmlAnswer) -> DriverRelease | Unavailable:
    """Read it off the NVML that was loaded, else off the first library that is not there for forward compatibility."""
    loaded = () if isinstance(answer.session, Unavailable) else (answer.session.library,)
    found = () if isinstance(host, Unavailable) else tuple(lib.path for lib in host.cuda_libraries if not lib.is_compat)
    releases = [read_release(path) for path in (*loaded, *found)]
    known = (release for release in releases if isinstance(release, DriverRelease))
    return next(known, Unavailable("no driver library whose file name tells", Absence.NOT_APPLICABLE))


def _find_container(root: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind of container and its sign, "" for none."""
    if "APPTAINER_CONTAINER" in environ or "SINGULARITY_CONTAINER" in environ:
        return "apptainer", "APPTAINER_CONTAINER"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes", "KUBERNETES_SERVICE_HOST"
    for sign, kind in _CONTAINER_FILES.items():
        if os.path.exists(root / sign):
            return kind, f"/{sign}"
    for place, text in (
        ("/proc/1/cgroup", _read_text(root / "proc/1/cgroup")),
        ("/proc/self/mountinfo", _read_root_mount(root)),
    ):
        for word, kind in _CONTAINER_WORDS.items():
            if word in text:
                return kind, f"{place}: {word}"
    # Set by systemd-nspawn, LXC, podman and others: https://systemd.io/CONTAINER_INTERFACE.
    return environ.get("container", ""), "container" if "container" in environ else ""


def _read_root_mount(root: Path) -> str:
    """Return the line about the root folder (proc(5), mountinfo: the fifth field is the mount point)."""
    lines = _read_text(root / "proc/self/mountinfo").splitlines()
    return next((line for line in lines if line.split()[4:5] == ["/"]), "")


def _read_distribution(root: Path) -> str:
    text = _read_text(root / "etc/os-release") or _read_text(root / "usr/lib/os-release")
    found = re.search(r"^PRETTY_NAME=(.*)$", text, re.MULTILINE)
    return found[1].strip("\"'") if found else ""


def _read_glibc() -> str | Unavailable:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:  # musl does not know the question
        name = version = ""
    return version if name == "glibc" else Unavailable("the C library is not glibc", Absence.NOT_APPLICABLE)


def _read_libstdcxx(root: Path, environ: Mapping[str, str]) -> str | Unavailable:
    """Read the newest symbol version that the loader's libstdc++ defines, e.g. "3.4.30"."""
    paths = (path for path, _ in find_library("libstdc++.so.6", root, environ) if os.path.isfile(path))
    path = next(paths, None)
    if path is None:
        return Unavailable("no libstdc++.so.6 here", Absence.NOT_APPLICABLE)
    try:
        with open_file(path) as reader:
            strings = parse_elf(reader).section(".dynstr")
            text = reader.read(strings.offset, strings.size) if strings else b""
    except (OSError, BinaryError) as exc:
        return Unavailable(f"{path}: {exc}")
    versions = re.findall(rb"\0GLIBCXX_(\d{1,3}(?:\.\d{1,3}){0,3})(?=\0)", text)
    newest = max(versions, key=lambda version: tuple(map(int, version.split(b"."))), default=b"")
    return newest.decode() or Unavailable(f"{path}: no GLIBCXX versions")


def _find_device_nodes(folder: Path) -> Iterator[DeviceNode]:
    for path in find_files(folder, "nvidia*"):
        if not os.path.isdir(path):
            error = _find_access_error(path) if _GPU_NODE.fullmatch(path.name) else _find_open_error(path)
            yield DeviceNode(path=f"/dev/{path.name}", openable=not error, error=error)


def _find_open_error(path: Path) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as exc:
        return errno.errorcode.get(exc.errno or 0, str(exc))
    return ""


def _find_access_error(path: Path) -> str:
    """Ask for permission only: opening the node of a GPU wakes it, which takes seconds, or for ever on a sick host."""
    if os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return ""
    # Where the mode lets everybody in, or us in particular, it is the container's device rules that do not.
    try:
        mode = path.stat().st_mode
    except OSError as exc:  # it went away
        return errno.errorcode.get(exc.errno or 0, str(exc))
    is_allowed = os.geteuid() == 0 or mode & _EVERYBODY == _EVERYBODY
    return "EPERM" if is_allowed else "EACCES"


def _find_pci_gpus(folder: Path) -> tuple[PciGpu, ...] | Unavailable:
    try:
        devices = sorted(folder.iterdir())
    except OSError as exc:
        return Unavailable(f"/sys/bus/pci/devices: {exc.strerror}")
    return tuple(_read_pci_gpu(device) for device in devices if _is_nvidia_gpu(device))


def _is_nvidia_gpu(device: Path) -> bool:
    if not _read_text(device / "class").startswith(_DISPLAY_CONTROLLER):
        return False
    return _read_text(device / "vendor") == _NVIDIA


def _read_pci_gpu(device: Path) -> PciGpu:
    driver = device / "driver"
    return PciGpu(
        address=device.name,
        device_id=_read_text(device / "device").removeprefix("0x"),
        driver=os.path.basename(os.readlink(driver)) if driver.is_symlink() else "",
    )


def _read_space(folder: Path) -> tuple[int | Unavailable, int | Unavailable]:
    """Return the size of a file system and what is free of it for us."""
    try:
        space = os.statvfs(folder)
    except OSError as exc:
        missing = Unavailable(f"{folder}: {exc.strerror}")
        return missing, missing
    return space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize


def _read_total_memory(root: Path) -> int | Unavailable:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read_text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else Unavailable("/proc/meminfo does not tell")


def _read_text(path: Path) -> str:
    """Return what a small file says, "" where there is none or it cannot be read."""
    try:
        return read_file(path).decode(errors="replace").strip()
    except OSError:
        return ""
