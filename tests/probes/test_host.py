"""Machines that are not here, as folders; this machine, as it is; and the driver, put together from all sources."""

import os
import platform
import socket
import sys
from pathlib import Path

import pytest

from envdoctor.model.facts import (
    Absence,
    CudaLibrary,
    DeviceNode,
    Driver,
    Host,
    NvmlCode,
    NvmlSession,
    PciGpu,
    Unavailable,
)
from envdoctor.model.versions import CudaVersion, DriverRelease
from envdoctor.probes.host import read_driver, read_host
from envdoctor.probes.nvml_answer import NO_LIBRARY, NvmlAnswer
from tests.host_tree import (
    I386_LIBRARY,
    OPEN_BANNER,
    PROPRIETARY_BANNER,
    HostTree,
    ask_ldconfig,
    loader_machine_flags,
)

LIB = "usr/lib/x86_64-linux-gnu"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and /sys of Linux")


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path)


def read(tree: HostTree, **environ: str) -> Host:
    return read_host(tree.root, environ)


# --- this machine -------------------------------------------------------------------------------------------------


def test_this_machine_is_read() -> None:
    host = read_host()

    assert host.system == "Linux"
    assert host.linux_release == platform.release()
    assert host.glibc == platform.libc_ver()[1]
    assert host.cpu_count == len(os.sched_getaffinity(0))
    assert isinstance(host.total_memory, int)
    assert host.total_memory > 1 << 28


def test_the_newest_symbol_version_of_libstdcxx_is_that_of_the_file() -> None:
    host = read_host()

    assert isinstance(host.libstdcxx, str)
    content = Path(ask_ldconfig("libstdc++.so.6")).read_bytes()
    major, minor, patch = map(int, host.libstdcxx.split("."))
    assert f"\0GLIBCXX_{host.libstdcxx}\0".encode() in content
    assert f"\0GLIBCXX_{major}.{minor}.{patch + 1}\0".encode() not in content


def test_an_empty_folder_is_a_machine_without_anything(tree: HostTree) -> None:
    host = read(tree)

    assert host.device_nodes == ()
    assert host.cuda_libraries == ()
    assert (host.container, host.container_evidence, host.wsl, host.distribution) == ("", "", False, "")
    assert host.pci_gpus == Unavailable("/sys/bus/pci/devices: No such file or directory")
    assert host.libstdcxx == Unavailable("no libstdc++.so.6 here", Absence.NOT_APPLICABLE)
    assert isinstance(host.shm_total, Unavailable)
    assert isinstance(host.total_memory, Unavailable)
    assert host.mps_directory == ""


# --- system -------------------------------------------------------------------------------------------------------


def test_the_distribution_has_its_pretty_name(tree: HostTree) -> None:
    tree.write("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n')

    assert read(tree).distribution == "Ubuntu 22.04.4 LTS"


def test_sizes_of_shared_memory_and_of_memory_are_bytes(tree: HostTree) -> None:
    (tree.root / "dev/shm").mkdir(parents=True)
    tree.write("proc/meminfo", "MemTotal:       131900000 kB\nMemFree:        1000 kB\n")
    space = os.statvfs(tree.root)

    host = read(tree)

    assert host.total_memory == 131900000 * 1024
    assert host.shm_total == space.f_blocks * space.f_frsize


@pytest.mark.parametrize(
    ("release", "wsl"),
    [("5.15.153.1-microsoft-standard-WSL2", True), ("4.4.0-19041-Microsoft", True), ("6.8.0-40-generic", False)],
)
def test_wsl_shows_in_the_release_of_the_kernel(tree: HostTree, release: str, wsl: bool) -> None:
    tree.write("proc/sys/kernel/osrelease", f"{release}\n")

    host = read(tree)

    assert (host.wsl, host.linux_release) == (wsl, release)


@pytest.mark.parametrize("content", [b"", b"not an ELF file", b"\x7fELF\x02\x01" + bytes(10)])
def test_a_damaged_libstdcxx_is_a_missing_fact(tree: HostTree, content: bytes) -> None:
    tree.write(f"{LIB}/libstdc++.so.6", content)

    found = read(tree).libstdcxx

    assert isinstance(found, Unavailable)
    assert "libstdc++.so.6" in found.reason


# --- containers ---------------------------------------------------------------------------------------------------

OVERLAY = "700 600 0:50 / / rw,relatime - overlay overlay rw,lowerdir={layer},upperdir=/x\n"


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", 'engine="podman-4.3.1"', "podman"),
        (".singularity.d/runscript", "", "apptainer"),
        ("var/run/secrets/kubernetes.io/serviceaccount/namespace", "default", "kubernetes"),
        ("proc/1/cgroup", "12:devices:/docker/0123456789abcdef\n", "docker"),
        ("proc/1/cgroup", "11:memory:/kubepods/besteffort/pod1234/5678\n", "kubernetes"),
        ("proc/1/cgroup", "0::/machine.slice/libpod-0123.scope\n", "podman"),
        ("proc/1/cgroup", "4:cpu:/lxc/101/ns\n", "lxc"),
        ("proc/self/mountinfo", OVERLAY.format(layer="/var/lib/docker/overlay2/l/ABC"), "docker"),
        ("proc/self/mountinfo", OVERLAY.format(layer="/home/u/.local/share/containers/storage/overlay/l/A"), "podman"),
    ],
)
def test_a_container_is_known_by_what_its_runtime_leaves(tree: HostTree, path: str, content: str, kind: str) -> None:
    tree.write(path, content)

    host = read(tree)

    assert host.container == kind
    assert host.container_evidence.split(":")[0].lstrip("/") in path


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1", "kubernetes"),
        ("APPTAINER_CONTAINER", "/images/torch.sif", "apptainer"),
        ("SINGULARITY_CONTAINER", "/images/torch.sif", "apptainer"),
        ("container", "systemd-nspawn", "systemd-nspawn"),
    ],
)
def test_a_container_is_known_by_its_variables(tree: HostTree, name: str, value: str, kind: str) -> None:
    assert read(tree, **{name: value}).container == kind


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("proc/1/cgroup", "0::/init.scope\n"),
        ("proc/self/mountinfo", "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n"),
        # The host of containers mounts their layers as well, but not on its root folder.
        ("proc/self/mountinfo", "90 22 0:50 / /var/lib/docker/overlay2/0/merged rw - overlay overlay rw\n"),
    ],
)
def test_a_host_is_no_container(tree: HostTree, path: str, content: str) -> None:
    tree.write(path, content)

    assert read(tree).container == ""


# --- device nodes and the PCI bus ---------------------------------------------------------------------------------


def test_device_nodes_are_listed_and_folders_are_not(tree: HostTree) -> None:
    for name in ("nvidia0", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1", "null"):
        tree.write(f"dev/{name}")

    assert read(tree).device_nodes == (
        DeviceNode(path="/dev/nvidia-uvm", openable=True),
        DeviceNode(path="/dev/nvidia0", openable=True),
        DeviceNode(path="/dev/nvidia10", openable=True),
        DeviceNode(path="/dev/nvidiactl", openable=True),
    )


def test_nodes_that_the_mode_denies_say_so(unprivileged: Path) -> None:
    tree = HostTree(unprivileged)
    for name in ("nvidia0", "nvidiactl"):
        tree.write(f"dev/{name}").chmod(0o000)

    assert {node.error for node in read(tree).device_nodes} == {"EACCES"}


def test_a_control_node_without_a_driver_behind_it_says_so(tree: HostTree) -> None:
    """Opening a socket fails like opening the node of a driver that is gone: ENXIO."""
    (tree.root / "dev").mkdir()
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tree.root / "dev/nvidiactl"))

        [node] = read(tree).device_nodes

    assert node == DeviceNode(path="/dev/nvidiactl", openable=False, error="ENXIO")


def test_the_node_of_a_gpu_is_not_opened(tree: HostTree) -> None:
    """Opening it wakes the card; a socket, which nobody can open, tells that nobody tried."""
    (tree.root / "dev").mkdir()
    with socket.socket(socket.AF_UNIX) as node:
        node.bind(str(tree.root / "dev/nvidia0"))

        [found] = read(tree).device_nodes

    assert found == DeviceNode(path="/dev/nvidia0", openable=True)


def test_nvidia_display_controllers_are_found_on_the_bus(tree: HostTree) -> None:
    tree.add_pci_device("0000:01:00.0", vendor="0x10de", device="0x2684", device_class="0x030000", driver="nvidia")
    tree.add_pci_device("0000:01:00.1", vendor="0x10de", device="0x22ba", device_class="0x040300")  # its audio
    tree.add_pci_device("0000:02:00.0", vendor="0x1002", device="0x744c", device_class="0x030000", driver="amdgpu")
    tree.add_pci_device("0000:41:00.0", vendor="0x10de", device="0x20b2", device_class="0x030200")  # no display

    assert read(tree).pci_gpus == (
        PciGpu(address="0000:01:00.0", device_id="2684", driver="nvidia"),
        PciGpu(address="0000:41:00.0", device_id="20b2", driver=""),
    )


def test_a_bus_without_cards_is_empty_not_missing(tree: HostTree) -> None:
    (tree.root / "sys/bus/pci/devices").mkdir(parents=True)

    assert read(tree).pci_gpus == ()


# --- the driver's libraries ---------------------------------------------------------------------------------------


def test_libraries_come_in_the_order_of_the_loader(tree: HostTree) -> None:
    tree.add_driver_library("usr/local/cuda-12.4/compat", "550.54.14")
    tree.add_driver_library("usr/lib64", "535.161.07")
    tree.add_driver_library("opt/driver", "470.82.01")
    tree.write_loader_cache([("libcuda.so.1", "/opt/driver/libcuda.so.1", loader_machine_flags())])

    libraries = read(tree, LD_LIBRARY_PATH="/nowhere:/usr/local/cuda-12.4/compat").cuda_libraries

    assert libraries == (
        CudaLibrary(
            soname="libcuda.so.1",
            path="/usr/local/cuda-12.4/compat/libcuda.so.550.54.14",
            release=DriverRelease("550.54.14"),
            found_through="LD_LIBRARY_PATH",
            is_compat=True,
        ),
        CudaLibrary(
            soname="libcuda.so.1",
            path="/opt/driver/libcuda.so.470.82.01",
            release=DriverRelease("470.82.01"),
            found_through="ld.so.cache",
            is_compat=False,
        ),
        CudaLibrary(
            soname="libcuda.so.1",
            path="/usr/lib64/libcuda.so.535.161.07",
            release=DriverRelease("535.161.07"),
            found_through="default",
            is_compat=False,
        ),
    )


def test_a_library_that_is_found_in_several_ways_counts_once(tree: HostTree) -> None:
    tree.add_driver_library("usr/lib64", "535.161.07", "libnvidia-ml.so")
    tree.link("usr/lib/libnvidia-ml.so.1", "../lib64/libnvidia-ml.so.1")

    [library] = read(tree, LD_LIBRARY_PATH="/usr/lib64").cuda_libraries

    assert (library.soname, library.found_through) == ("libnvidia-ml.so.1", "LD_LIBRARY_PATH")


def test_the_loader_passes_over_libraries_of_32_bit(tree: HostTree) -> None:
    tree.write("usr/lib/libcuda.so.1", b"\x7fELF\x01\x01")
    tree.write("usr/lib32/libcuda.so.1", b"\x7fELF\x01\x01")
    tree.write_loader_cache([("libcuda.so.1", "/usr/lib32/libcuda.so.1", I386_LIBRARY)])

    assert read(tree).cuda_libraries == ()


def test_the_library_of_wsl_is_found_where_no_cache_names_it(tree: HostTree) -> None:
    tree.write("usr/lib/wsl/lib/libcuda.so.1", b"\x7fELF\x02\x01")

    [library] = read(tree).cuda_libraries

    assert (library.path, library.found_through) == ("/usr/lib/wsl/lib/libcuda.so.1", "wsl")
    assert isinstance(library.release, Unavailable)


def test_a_damaged_cache_leaves_the_default_folders(tree: HostTree) -> None:
    tree.write("etc/ld.so.cache", b"glibc-ld.so.cache1.1")
    tree.add_driver_library("usr/lib64", "535.161.07")

    assert [library.found_through for library in read(tree).cuda_libraries] == ["default"]


def test_a_link_to_nowhere_is_no_library(tree: HostTree) -> None:
    tree.link("usr/lib64/libcuda.so.1", "libcuda.so.535.161.07")

    assert read(tree).cuda_libraries == ()


def test_an_empty_item_of_the_search_path_is_the_working_folder(
    tree: HostTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.write("libcuda.so.1", b"\x7fELF\x02\x01")
    monkeypatch.chdir(tmp_path)

    assert len(read(tree, LD_LIBRARY_PATH="/usr/local/cuda/lib64:").cuda_libraries) == 1
    assert read(tree, LD_LIBRARY_PATH="").cuda_libraries == ()


# --- MPS ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mps_control(tmp_path: Path) -> Path:
    folder = tmp_path / "mps"
    folder.mkdir()
    return folder / "control"


def test_a_running_mps_daemon_is_found_without_talking_to_it(tree: HostTree, mps_control: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.bind(str(mps_control))
        daemon.listen()
        daemon.setblocking(False)

        assert read(tree, CUDA_MPS_PIPE_DIRECTORY="/mps").mps_directory == "/mps"
        with pytest.raises(BlockingIOError):
            daemon.accept()


def test_the_socket_of_a_daemon_that_is_gone_is_none(tree: HostTree, mps_control: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.bind(str(mps_control))

    assert mps_control.exists()
    assert read(tree, CUDA_MPS_PIPE_DIRECTORY="/mps").mps_directory == ""


def test_the_daemon_is_looked_for_in_its_default_folder(tree: HostTree) -> None:
    (tree.root / "tmp/nvidia-mps").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.bind(str(tree.root / "tmp/nvidia-mps/control"))

        assert read(tree).mps_directory == "/tmp/nvidia-mps"


@pytest.mark.parametrize("length", [120, 5000])
def test_no_daemon_listens_at_a_path_that_no_socket_can_have(tree: HostTree, length: int) -> None:
    if length < 255:
        tree.write(f"{'m' * length}/control")

    assert read(tree, CUDA_MPS_PIPE_DIRECTORY="/" + "m" * length).mps_directory == ""


def test_a_locked_folder_hides_nothing_else(unprivileged: Path) -> None:
    tree = HostTree(unprivileged)
    tree.write("etc/os-release", 'PRETTY_NAME="Some Linux"\n')
    tree.add_driver_library("lib", "550.54.15")
    for name in ("var/run/secrets/kubernetes.io", "locked/lib", "locked/mps", "dev/shm"):
        (unprivileged / name).mkdir(parents=True)
    for name in ("var/run/secrets", "locked", "dev/shm"):
        (unprivileged / name).chmod(0)

    host = read(tree, LD_LIBRARY_PATH="/locked/lib:/lib", CUDA_MPS_PIPE_DIRECTORY="/locked/mps")

    assert (host.distribution, host.container, host.mps_directory) == ("Some Linux", "", "")
    assert [library.release for library in host.cuda_libraries] == [DriverRelease("550.54.15")]


# --- the driver ---------------------------------------------------------------------------------------------------

NVML_SILENT = Unavailable("nvmlInit: Driver Not Loaded")
NO_MODULE = Unavailable("no NVIDIA kernel module is loaded", Absence.NOT_APPLICABLE)


def an_answer(
    driver: DriverRelease | Unavailable = NO_LIBRARY,
    cuda: CudaVersion | Unavailable = NO_LIBRARY,
    library: str = "libnvidia-ml.so.1",
) -> NvmlAnswer:
    session = NvmlSession(library=library, init=NvmlCode(0, "NVML_SUCCESS"), device_count=0)
    return NvmlAnswer(session=session, gpus=(), peer_access=(), driver_release=driver, cuda_version=cuda)


def driver_of(tree: HostTree, answer: NvmlAnswer) -> Driver:
    driver = read_driver(read(tree), answer, tree.root)
    assert isinstance(driver, Driver)
    return driver


def test_the_kernel_module_has_the_first_word(tree: HostTree) -> None:
    tree.write("sys/module/nvidia/version", "535.161.07\n")
    tree.write("proc/driver/nvidia/version", PROPRIETARY_BANNER)
    tree.add_driver_library("usr/lib64", "550.54.15", "libnvidia-ml.so")

    driver = driver_of(tree, an_answer(driver=DriverRelease("550.54.15"), cuda=CudaVersion(12, 4)))

    assert driver == Driver(
        release_version=DriverRelease("535.161.07"),
        source="/sys/module/nvidia/version",
        cuda_version=CudaVersion(12, 4),
        module_version=DriverRelease("535.161.07"),
        library_version=DriverRelease("550.54.15"),
        open_module=False,
    )


@pytest.mark.parametrize(
    ("banner", "release", "is_open"), [(OPEN_BANNER, "550.54.15", True), (PROPRIETARY_BANNER, "535.161.07", False)]
)
def test_the_banner_tells_release_and_flavour(tree: HostTree, banner: str, release: str, is_open: bool) -> None:
    tree.write("proc/driver/nvidia/version", banner)

    driver = driver_of(tree, an_answer(driver=NVML_SILENT))

    assert driver.source == "/proc/driver/nvidia/version"
    assert (driver.release_version, driver.module_version) == (DriverRelease(release),) * 2
    assert driver.open_module is is_open


def test_a_module_without_its_banner_keeps_its_flavour_to_itself(tree: HostTree) -> None:
    tree.write("sys/module/nvidia/version", "535.161.07\n")
    tree.write("proc/driver/nvidia/version", "")

    driver = driver_of(tree, an_answer(driver=NVML_SILENT))

    assert driver.release_version == DriverRelease("535.161.07")
    assert driver.open_module == Unavailable("/proc/driver/nvidia/version does not tell")


@pytest.mark.parametrize("banner", ["garbage", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  unknown  Sat Feb 17"])
def test_a_banner_without_a_release_is_no_release(tree: HostTree, banner: str) -> None:
    tree.write("proc/driver/nvidia/version", banner)

    driver = driver_of(tree, an_answer(driver=DriverRelease("535.161.07")))

    assert (driver.release_version, driver.source) == (DriverRelease("535.161.07"), "NVML")


def test_without_a_module_in_sight_nvml_is_believed(tree: HostTree) -> None:
    """WSL: the module is that of Windows."""
    driver = driver_of(tree, an_answer(driver=DriverRelease("551.61"), cuda=CudaVersion(12, 4)))

    assert (driver.release_version, driver.source) == (DriverRelease("551.61"), "NVML")
    assert (driver.module_version, driver.open_module) == (NO_MODULE, NO_MODULE)


def test_libraries_without_a_module_are_a_driver_that_is_not_loaded(tree: HostTree) -> None:
    tree.add_driver_library("usr/lib64", "550.54.15")

    driver = driver_of(tree, an_answer(driver=NVML_SILENT))

    assert driver.release_version == NVML_SILENT
    assert driver.library_version == DriverRelease("550.54.15")


def test_the_forward_compatibility_library_is_not_the_drivers_own(tree: HostTree) -> None:
    tree.add_driver_library("usr/local/cuda/compat", "560.35.05")
    tree.add_driver_library("usr/lib64", "535.161.07")
    tree.write("sys/module/nvidia/version", "535.161.07\n")

    host = read(tree, LD_LIBRARY_PATH="/usr/local/cuda/compat")
    driver = read_driver(host, an_answer(driver=DriverRelease("535.161.07")), tree.root)

    assert isinstance(driver, Driver)
    assert driver.library_version == DriverRelease("535.161.07")


def test_the_nvml_that_was_loaded_tells_the_release_of_the_libraries(tree: HostTree) -> None:
    tree.add_driver_library("usr/lib64", "535.161.07")

    driver = driver_of(tree, an_answer(driver=DriverRelease("550.54.15"), library="/opt/lib/libnvidia-ml.so.550.54.15"))

    assert driver.library_version == DriverRelease("550.54.15")


def test_no_driver_at_all_is_not_applicable(tree: HostTree) -> None:
    assert read_driver(read(tree), an_answer(), tree.root) == Unavailable(
        "no NVIDIA driver here", Absence.NOT_APPLICABLE
    )


def test_an_nvml_that_hangs_is_not_the_absence_of_a_driver(tree: HostTree) -> None:
    hung = Unavailable("NVML did not answer `nvmlInit`: given up after 15 seconds")

    assert read_driver(read(tree), an_answer(driver=hung), tree.root) == hung


def test_a_host_that_could_not_be_read_leaves_the_driver(tree: HostTree) -> None:
    tree.write("sys/module/nvidia/version", "535.161.07\n")

    driver = read_driver(Unavailable("no /proc"), an_answer(driver=NVML_SILENT), tree.root)

    assert isinstance(driver, Driver)
    assert driver.release_version == DriverRelease("535.161.07")
