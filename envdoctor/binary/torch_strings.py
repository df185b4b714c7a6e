"""What the libraries of torch say about their own build: the architectures and the C++ ABI, from symbols and strings.

Established on the wheels of torch 1.0.0 to 2.14.1 and compared with the running library where one could run.
"""

import re

from envdoctor.binary.elf import MACHINE_X86_64, Elf, ElfError, Section
from envdoctor.model.arch import Arch, parse_arch_list

# `torch._C._cuda_getArchFlags`, the text behind `torch.cuda.get_arch_list()`: torch/csrc/cuda/Module.cpp.
_ACCESSOR = "_Z23THCPModule_getArchFlagsP7_objectS0_"
_LONGEST_ACCESSOR = 4096

_NAME = rb"(?:sm|compute)_\d{2,3}[af]?"
# No NUL before it: in torch 2.8.0 the text directly follows that of another literal ("...ipc_hsm_70 sm_75 ...").
# Bounded: the search of a long run of names would take the square of its length.
_ARCH_LIST = re.compile(rb"(" + _NAME + rb"(?: " + _NAME + rb"){0,99})\0")
_LONGEST_ARCH_LIST = 1024

# lea reg, [rip + displacement]: REX.W, opcode 8D, ModRM with mod 00 and r/m 101 (Intel SDM, volume 2, "LEA").
_LOAD_ADDRESS = re.compile(rb"(?=[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](.{4}))", re.DOTALL)
_LOAD_ADDRESS_SIZE = 7

# The form in `torch.__config__.show()`; libtorch_cpu.so of torch 2.14.1 has other texts with `-gencode`.
_COMPILER_FLAGS = b"-gencode;arch="
_FLAG_CODE = re.compile(r"code=((?:sm|compute)_\d{2,3}[af]?)")

# std::string in mangled names: with the C++11 ABI of libstdc++, and before it (Itanium C++ ABI, 5.1.9).
_NEW_STRING = b"NSt7__cxx1112basic_string"
_OLD_STRING = b"RKSs"


def arch_list_of_accessor(library: Elf) -> tuple[Arch, ...]:
    """Read the text that the accessor in libtorch_python.so returns; () without its symbol, or on another machine.

    Raises:
        BinaryError: the file is damaged or cut off.

    """
    if library.header.machine != MACHINE_X86_64:
        return ()
    accessor = library.find_symbol(_ACCESSOR)
    if accessor is None:
        return ()
    code = library.reader.peek(library.offset_of(accessor.value), min(accessor.size, _LONGEST_ACCESSOR))
    for instruction in _LOAD_ADDRESS.finditer(code):
        after = accessor.value + instruction.start() + _LOAD_ADDRESS_SIZE
        address = after + int.from_bytes(instruction[1], "little", signed=True)
        if text := _ARCH_LIST.match(_bytes_at(library, address)):
            return parse_arch_list(text[1].decode())
    return ()


def arch_list_of_strings(library: Elf) -> tuple[Arch, ...]:
    """Search libtorch_python.so for the text that the accessor returns: for other machines and stripped files.

    () also when several texts could be it.

    Raises:
        BinaryError: the file is damaged or cut off.

    """
    texts: set[bytes] = set()
    if constants := library.section(".rodata"):
        for _, chunk in library.reader.chunks(*_range(constants), _LONGEST_ARCH_LIST):
            texts.update(_ARCH_LIST.findall(chunk))
    # Where one chunk ends within the text, the next begins with a shorter piece of it: the longest is whole.
    longest = max((text.count(b" ") for text in texts), default=0)
    candidates = [text for text in texts if text.count(b" ") == longest]
    return parse_arch_list(candidates[0].decode()) if len(candidates) == 1 else ()


def arch_list_of_compiler_flags(library: Elf) -> tuple[Arch, ...]:
    """Read the nvcc flags that torch was compiled with from the library that keeps them, () from the others.

    Raises:
        BinaryError: the file is damaged or cut off.

    """
    constants = library.section(".rodata")
    if constants is None:
        return ()
    start, end = _range(constants)
    if (place := library.reader.find(_COMPILER_FLAGS, start, end)) < 0:
        return ()
    names = _FLAG_CODE.findall(library.reader.text(place, end))
    return tuple(Arch.parse(name) for name in dict.fromkeys(names))


def uses_cxx11_strings(library: Elf) -> bool | None:
    """Whether the names in libtorch_python.so were mangled with the C++11 ABI; None when none has a string.

    Not for libc10.so: built without that ABI, it still exports names of libstdc++ that have it.

    Raises:
        BinaryError: the file is damaged or cut off.

    """
    start, end = library.dynamic_strings
    if library.reader.find(_NEW_STRING, start, end) >= 0:
        return True
    return False if library.reader.find(_OLD_STRING, start, end) >= 0 else None


def _range(section: Section) -> tuple[int, int]:
    return section.offset, section.offset + section.size


def _bytes_at(library: Elf, address: int) -> bytes:
    try:
        return library.reader.peek(library.offset_of(address), _LONGEST_ARCH_LIST)
    except ElfError:
        return b""  # the operand is the address of something that has no bytes in the file
