"""The library of built-in functions that NVRTC opens by name when it compiles, and whether it is of the same CUDA."""

import os
import re
from collections.abc import Iterable

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.link import Process
from envdoctor.binary.reader import BinaryError, Reader, open_file
from envdoctor.model.facts import Environment, NvrtcBuiltins, Unavailable, Variable
from envdoctor.model.versions import CudaVersion
from envdoctor.probes.loader_process import start_processes

# NVRTC of CUDA 10.2 has `libnvrtc-builtins.so` among its strings, that of 11.8 `libnvrtc-builtins.so.11.8`.
_START = b"\0libnvrtc-builtins.so"
_LONGEST_NAME = 64
_RELEASE = re.compile(r"\.so\.(\d{1,2}\.\d{1,2})(?:\.|$)")


def find_builtins(soname: str, environment: Environment, variables: Iterable[Variable]) -> NvrtcBuiltins | None:
    """Find what the loader would take for the NVRTC of that name; None where a file or its release is not known."""
    processes = start_processes(environment, Unavailable("not asked for"), variables)
    if isinstance(processes, Unavailable):
        return None
    try:
        return _find_builtins(soname, processes.alone)
    except (OSError, BinaryError):
        return None


def _find_builtins(soname: str, process: Process) -> NvrtcBuiltins | None:
    nvrtc = process.find(soname, needed_by="")
    name, cuda = _read_compiler(nvrtc.path) if nvrtc else ("", None)
    taken = process.find(name, nvrtc.path) if nvrtc and name else None
    builtins_cuda = _read_release(taken.path) if taken else None
    if nvrtc is None or taken is None or cuda is None or builtins_cuda is None:
        return None
    beside = os.path.join(os.path.dirname(nvrtc.path), name)
    return NvrtcBuiltins(
        nvrtc=nvrtc.path,
        nvrtc_cuda=cuda,
        name=name,
        path=taken.path,
        found_through=taken.found_through,
        builtins_cuda=builtins_cuda,
        right=beside if os.path.isfile(beside) and _read_release(beside) == cuda else "",
    )


def _read_compiler(path: str) -> tuple[str, CudaVersion | None]:
    """Read the name that it asks for, and its release: that in the name where there is one."""
    with open_file(path) as reader:
        name = _find_name(reader)
        return name, _parse_release(name) or _parse_release(parse_elf(reader).soname)


def _find_name(reader: Reader) -> str:
    place = reader.find(_START, 0, reader.size)
    return reader.text(place + 1, place + _LONGEST_NAME) if place >= 0 else ""


def _read_release(path: str) -> CudaVersion | None:
    """Read it from the name that the library gives itself, or from that of the file behind all links."""
    with open_file(path) as reader:
        soname = parse_elf(reader).soname
    return _parse_release(soname) or _parse_release(os.path.basename(os.path.realpath(path)))


def _parse_release(name: str) -> CudaVersion | None:
    found = _RELEASE.search(name)
    return CudaVersion.parse(found[1]) if found else None
