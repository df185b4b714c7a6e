"""Root folders of machines that are not here: what `read_host` reads, under a temporary folder."""

import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

X86_64_LIBRARY, AARCH64_LIBRARY, I386_LIBRARY = 0x0303, 0x0A03, 0x0003  # flags of ld.so.cache
OPEN_BANNER = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (archive-builder@)  Tue Mar  5 2024
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
PROPRIETARY_BANNER = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024
GCC version:  gcc version 9.4.0 (Ubuntu 9.4.0-1ubuntu1~20.04.2)
"""


class HostTree:
    """A root folder that is filled step by step."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, content: str | bytes = "") -> Path:
        """Write a file, with the folders above it."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link; a *target* beside it keeps the link inside the tree."""
        link = self.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def add_driver_library(self, folder: str, release: str, name: str = "libcuda.so") -> None:
        """Install a library of the driver as its package does: the file, and the link by which it is loaded."""
        self.write(f"{folder}/{name}.{release}", b"\x7fELF\x02\x01")
        self.link(f"{folder}/{name}.1", f"{name}.{release}")

    def add_pci_device(self, address: str, *, vendor: str, device: str, device_class: str, driver: str = "") -> None:
        """Add a device to the PCI bus as sysfs shows it."""
        folder = f"sys/bus/pci/devices/{address}"
        for name, value in (("vendor", vendor), ("device", device), ("class", device_class)):
            self.write(f"{folder}/{name}", f"{value}\n")
        if driver:
            self.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")

    def write_loader_cache(self, entries: Iterable[tuple[str, str, int]]) -> None:
        """Write /etc/ld.so.cache."""
        self.write("etc/ld.so.cache", a_loader_cache(entries))


def a_loader_cache(entries: Iterable[tuple[str, str, int]]) -> bytes:
    """Build an ``/etc/ld.so.cache`` from names, paths and flags."""
    rows = list(entries)
    strings = b""
    table = b""
    start = 48 + 24 * len(rows)
    for name, path, flags in rows:
        place = start + len(strings)
        table += struct.pack("<IIIIQ", flags, place, place + len(name) + 1, 0, 0)
        strings += f"{name}\0{path}\0".encode()
    return struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(rows), len(strings)) + table + strings


def ask_ldconfig(soname: str) -> str:
    """The file that answers to a library's name on this machine, as glibc's own tool tells."""
    ldconfig = shutil.which("ldconfig", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if ldconfig is None:
        pytest.skip("no ldconfig to ask")
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    machine = {"x86_64": "x86-64", "aarch64": "AArch64"}[os.uname().machine]
    lines = [line for line in listing.splitlines() if line.startswith(f"\t{soname} (") and machine in line]
    return lines[0].split(" => ")[1]


def loader_machine_flags() -> int:
    """The flags of the libraries that this machine loads."""
    return AARCH64_LIBRARY if os.uname().machine == "aarch64" else X86_64_LIBRARY
