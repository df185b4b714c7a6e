"""Files for the tests: the real ones of fixtures/binaries, and containers of other formats built around them."""

import struct
import zlib
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures" / "binaries"

# Every format that fixtures/binaries holds once, small enough to be damaged many times over.
SMALL_FILES = (
    "rdc/librdc.so",
    "rdc/libnordc.so",
    "rdc/a.o",
    "rdc/a_lto.o",
    "old/cu118_all.fatbin",
    "old/cu118_all_compressall.fatbin",
    "old/cu129_sm_120f.cubin",
    "old/cu121_sm_90a.cubin",
    "c_size.fatbin",
)

_ALIGNMENT = 0x200
_SECTION_ADDRESSES = 0x1000
_DATA = 0x4000_0040  # readable, initialised
_CODE = 0x6000_0020  # readable, executable


def content_of(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def deflated(content: bytes) -> bytes:
    """Compressed as in a wheel, without a header."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


def static_library(*members: tuple[str, bytes]) -> bytes:
    """An archive as GNU ar writes it: long names in a table of their own."""
    names = "".join(f"{name}/\n" for name, _ in members if len(name) > 15).encode()
    archive = b"!<arch>\n" + (_member("//", names) if names else b"")
    for name, content in members:
        short = f"{name}/" if len(name) <= 15 else f"/{names.index(f'{name}/'.encode())}"
        archive += _member(short, content)
    return archive


def _member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return header + content + b"\n" * (len(content) % 2)


def windows_library(sections: dict[str, bytes], imports: tuple[str, ...] = ()) -> bytes:
    """A DLL for x86-64 with these sections, as the PE specification demands it."""
    contents = {".text": b"\xc3" * 16, **sections, ".idata": _import_table(imports, len(sections) + 2)}
    headers_size = 0x40 + 24 + 240 + 40 * len(contents)
    offset = -(-headers_size // _ALIGNMENT) * _ALIGNMENT
    table, body = b"", b""
    for index, (name, content) in enumerate(contents.items()):
        padded = content + bytes(-len(content) % _ALIGNMENT)
        address = _address(index)
        flags = _CODE if name == ".text" else _DATA
        table += struct.pack(
            "<8sIIIIIIHHI", name.encode(), len(content), address, len(padded), offset, 0, 0, 0, 0, flags
        )
        offset += len(padded)
        body += padded
    dos = b"MZ" + bytes(58) + struct.pack("<I", 0x40)
    header = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(contents), 0, 0, 0, 240, 0x2022)
    import_address = _address(len(contents) - 1) if imports else 0
    optional = struct.pack("<H106xI", 0x20B, 16) + struct.pack("<8xII", import_address, 20 * (len(imports) + 1))
    head = dos + header + optional.ljust(240, b"\0") + table
    return head.ljust(-(-headers_size // _ALIGNMENT) * _ALIGNMENT, b"\0") + body


def _address(index: int) -> int:
    # Far enough apart for every section of the tests.
    return _SECTION_ADDRESSES + index * 0x10_0000


def _import_table(imports: tuple[str, ...], section_count: int) -> bytes:
    start = _address(section_count - 1) + 20 * (len(imports) + 1)
    table, names = b"", b""
    for name in imports:
        table += struct.pack("<12xI4x", start + len(names))
        names += name.encode() + b"\0"
    return table + bytes(20) + names
