"""Make hollow copies of compiled libraries: what envdoctor reads of them stays at its place, the rest becomes holes.

    python -m tools.hollow LIBRARY COPY
    python -m tools.hollow SITE_PACKAGES ARCHIVE.tar.xz [--beside FOLDER]... [--text PATTERN]...

A hollow library has its true size and the true offsets of all headers, tables and names, takes next to no room, and
holds no code. Of a folder of installed distributions (a site-packages, or an unpacked wheel) the archive gets the
libraries, the metadata, `version.py`, and packages that are empty but for their version; it unpacks with Python's
tarfile or GNU tar, into sparse files. Every hollow library is read and compared with its original.

Of an archive's symbols those stay that its libraries, or those of the folders `--beside` it, ask for, and those of
kb/torch_symbols.toml, in either ABI of std::string: for these the dynamic loader says the same of copy and original.
Text files whose path in site-packages fits a PATTERN stay whole.
"""

import argparse
import csv
import io
import itertools
import re
import struct
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from envdoctor import kb
from envdoctor.binary import ptxas, torch_strings
from envdoctor.binary.cubin import CUBIN_KEY
from envdoctor.binary.elf import Elf, parse_elf
from envdoctor.binary.image import read_image
from envdoctor.binary.reader import BinaryError, Reader, open_file
from tools.hollow_tables import Asked, Piece, asked_symbols, keys_of, loader_answers, loader_pieces

T = TypeVar("T")

_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$")
_PTXAS = re.compile(r"(^|/)ptxas[^/.]*$")
_METADATA = ("METADATA", "INSTALLER", "WHEEL")
_VERSION_LINE = re.compile(r"^__version__ *=.*$", re.MULTILINE)

_ELF_HEADER_SIZE = 64
_SYMBOL = struct.Struct("<IBBHQQ")
# Longer reads are searches: of what they look for, the finds are kept.
_LARGEST_HEADER = 1 << 14
_ACCESSOR = "_Z23THCPModule_getArchFlagsP7_objectS0_"
_STRING_NAMES = (b"NSt7__cxx1112basic_string", b"RKSs")
_CONSTANTS = re.compile(
    rb"(?:(?:sm|compute|lto)_\d{2,3}[af]?)(?: (?:sm|compute)_\d{2,3}[af]?)*\0"
    rb"|Cuda compilation tools, release [\d.]+, V"
    rb"|-gencode;arch=[^\0]{,8000}\0"
)
_HAS_CONSTANTS = re.compile(r"libtorch|ptxas")
_OVERLAP = 8192

_QUESTIONS: tuple[Callable[[Elf], Any], ...] = (
    lambda library: (library.needed, library.soname, library.rpath, library.runpath, library.sections),
    torch_strings.arch_list_of_accessor,
    torch_strings.arch_list_of_strings,
    torch_strings.arch_list_of_compiler_flags,
    torch_strings.uses_cxx11_strings,
)


class Member(NamedTuple):
    """A file of an archive: whole, or the pieces of a hollow one and its true size."""

    name: str
    size: int
    pieces: tuple[Piece, ...]


class _RecordingReader(Reader):
    """Remembers the headers that are read through it."""

    def __init__(self, file: Reader) -> None:
        super().__init__(file.size)
        self._file = file
        self.pieces: list[Piece] = []

    def peek(self, offset: int, size: int) -> bytes:
        content = self._file.peek(offset, size)
        if content.startswith(CUBIN_KEY) and size > _ELF_HEADER_SIZE:
            self.pieces += _without_code(offset, content)
        elif size <= _LARGEST_HEADER:
            self.pieces.append(Piece(offset, content))
        return content


def _without_code(offset: int, cubin: bytes) -> Iterator[Piece]:
    """Of a whole cubin keep the header, and whether it has kernels."""
    yield Piece(offset, cubin[:_ELF_HEADER_SIZE])
    if (place := cubin.find(b".text")) >= 0:
        yield Piece(offset + place, b".text")


def hollow(path: Path, keys: AbstractSet[str] | None = None) -> Member:
    """Find what must be kept of a library: all headers that envdoctor reads, the finds of its searches, and symbols.

    Kept are the symbols that it needs, and of those that it has the ones that have one of *keys*; None: all.
    """
    with open_file(path) as file:
        reader = _RecordingReader(file)
        try:
            read_image(reader)
            library = parse_elf(reader)
            _answers(library, path.name)
        except BinaryError:
            return Member(path.name, file.size, (Piece(0, file.peek(0, _LARGEST_HEADER)),))
        finds = (*_accessor(library), *_string_name(library), *_constants(library, path.name))
        finds += tuple(loader_pieces(parse_elf(file), keys))
        return Member(path.name, file.size, tuple(_merge([*reader.pieces, *finds], file.size)))


def _answers(library: Elf, name: str) -> list[Any]:
    """Ask everything that envdoctor asks of a library, or of a ptxas."""
    questions = (*_QUESTIONS, ptxas.read_label) if _PTXAS.search(name) else _QUESTIONS
    return [_answer(question, library) for question in questions]


def _answer(question: Callable[[T], Any], asked: T) -> Any:
    try:
        return question(asked)
    except BinaryError as error:
        return str(error)


def _accessor(library: Elf) -> Iterator[Piece]:
    """Keep the symbol and the name of the function that returns torch's list of architectures."""
    table, symbol = library.section(".symtab"), library.find_symbol(_ACCESSOR)
    if table is None or symbol is None:
        return
    strings = library.sections[table.link]
    yield Piece(strings.offset + symbol.name_offset - 1, b"\0" + _ACCESSOR.encode() + b"\0")
    entry = _SYMBOL.pack(*symbol)
    yield Piece(library.reader.find(entry, table.offset, table.offset + table.size), entry)


def _string_name(library: Elf) -> Iterator[Piece]:
    """Keep one name that shows how std::string is mangled."""
    try:
        start, end = library.dynamic_strings
    except BinaryError:
        return
    for name in _STRING_NAMES:
        if (place := library.reader.find(name, start, end)) >= 0:
            yield Piece(place, name)
            return


def _constants(library: Elf, name: str) -> Iterator[Piece]:
    """Keep the texts that name architectures and releases."""
    section = library.section(".rodata")
    if section is None or not _HAS_CONSTANTS.search(name):
        return
    for offset, chunk in library.reader.chunks(section.offset, section.offset + section.size, _OVERLAP):
        yield from (Piece(offset + match.start(), match[0]) for match in _CONSTANTS.finditer(chunk))


def _merge(pieces: list[Piece], size: int) -> Iterator[Piece]:
    """Join the pieces that lie in the same or in neighbouring blocks of a tar file, which are its smallest units."""
    blocks: dict[int, bytearray] = {}
    for piece in pieces:
        place, end = piece.offset, piece.offset + len(piece.content)
        while place < end:
            block, inside = divmod(place, tarfile.BLOCKSIZE)
            part = piece.content[place - piece.offset :][: tarfile.BLOCKSIZE - inside]
            blocks.setdefault(block, bytearray(tarfile.BLOCKSIZE))[inside : inside + len(part)] = part
            place += len(part)
    for _, run in itertools.groupby(enumerate(sorted(blocks)), key=lambda item: item[1] - item[0]):
        numbers = [block for _, block in run]
        offset = numbers[0] * tarfile.BLOCKSIZE
        yield Piece(offset, b"".join(blocks[block] for block in numbers)[: size - offset])


# --- archives ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What an archive holds beside the headers of libraries."""

    keys: frozenset[str]  # of symbols
    texts: tuple[str, ...]  # patterns of the paths of text files that stay whole


def asked_by(folders: Iterable[Path]) -> frozenset[Asked]:
    """Return the symbols that the libraries of some folders need from elsewhere."""
    libraries = (path for folder in folders for path in sorted(folder.rglob("*")) if _LIBRARY.search(path.name))
    return frozenset(symbol for path in libraries for symbol in _asked_by_file(path))


def known_symbols() -> frozenset[Asked]:
    """Return the symbols that tell releases of torch apart."""
    return frozenset(Asked(name.encode(), None) for row in kb.load().torch_symbols() for name in row.names)


def _asked_by_file(path: Path) -> set[Asked]:
    with open_file(path) as file:
        try:
            return asked_symbols(parse_elf(file))
        except BinaryError:
            return set()


def members_of(site_packages: Path, choice: Choice) -> Iterator[Member]:
    """Choose what an archive of installed distributions holds."""
    for metadata in sorted(site_packages.glob("*.dist-info")):
        names: list[str] = []
        for member in _members_of_distribution(metadata, choice):
            names.append(member.name)
            yield member
        listing = "".join(f"{name},,\n" for name in (*names, f"{metadata.name}/RECORD"))
        yield _text(f"{metadata.name}/RECORD", listing)


def _members_of_distribution(metadata: Path, choice: Choice) -> Iterator[Member]:
    site_packages = metadata.parent
    with (metadata / "RECORD").open(encoding="utf-8", newline="") as file:
        names = [row[0] for row in csv.reader(file)]
    for name in names:
        path = site_packages / name
        if not path.is_file() or ".." in name:
            continue
        if _LIBRARY.search(name) or _PTXAS.search(name):
            yield hollow(path, choice.keys)._replace(name=name)
        elif any(fnmatch(name, pattern) for pattern in choice.texts):
            yield _text(name, path.read_text("utf-8"))
        elif path.name == "version.py" or (path.parent == metadata and path.name in _METADATA):
            yield _text(name, _head(path))
        elif path.name == "__init__.py" and path.parent.parent == site_packages:
            lines = _VERSION_LINE.findall(path.read_text("utf-8"))
            yield _text(name, "".join(f"{line}\n" for line in lines))


def _head(path: Path) -> str:
    """Read a text file; of METADATA the headers, not the README that follows."""
    text = path.read_text("utf-8")
    return text.partition("\n\n")[0] + "\n" if path.name == "METADATA" else text


def _text(name: str, text: str) -> Member:
    return Member(name, len(text.encode()), (Piece(0, text.encode()),))


def write_archive(members: Iterable[Member], archive: Path) -> None:
    """Write a tar file with sparse members (GNU tar's format 1.0), the same bytes every time."""
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for member in members:
            info, content = _sparse(member) if _is_sparse(member) else _whole(member)
            tar.addfile(info, io.BytesIO(content))


def _is_sparse(member: Member) -> bool:
    return sum(len(piece.content) for piece in member.pieces) < member.size


def _whole(member: Member) -> tuple[tarfile.TarInfo, bytes]:
    content = b"".join(piece.content for piece in member.pieces)
    info = tarfile.TarInfo(member.name)
    info.size = len(content)
    return info, content


def _sparse(member: Member) -> tuple[tarfile.TarInfo, bytes]:
    # The map of the pieces precedes them, in decimal lines, filled up to whole blocks; an empty piece ends the file.
    places = [*((piece.offset, len(piece.content)) for piece in member.pieces), (member.size, 0)]
    numbers = [len(places), *itertools.chain.from_iterable(places)]
    table = "".join(f"{number}\n" for number in numbers).encode()
    content = table + bytes(-len(table) % tarfile.BLOCKSIZE) + b"".join(piece.content for piece in member.pieces)
    info = tarfile.TarInfo(f"GNUSparseFile.0/{member.name}")
    info.size = len(content)
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": member.name,
        "GNU.sparse.realsize": str(member.size),
    }
    return info, content


def write_copy(member: Member, path: Path) -> None:
    """Write a hollow library as a sparse file."""
    with path.open("wb") as file:
        for piece in member.pieces:
            file.seek(piece.offset)
            file.write(piece.content)
        file.truncate(member.size)


# --- comparison --------------------------------------------------------------------------------------------------


def differences(original: Path, copy: Path, asked: Iterable[Asked] = ()) -> Iterator[str]:
    """Say what is read otherwise of a hollow library than of the one it was made from."""
    if original.stat().st_size != copy.stat().st_size:
        yield "the size"
    with open_file(original) as first, open_file(copy) as second:
        if _answer(read_image, first) != _answer(read_image, second):
            yield "the device code"
        if _answer(_answers_of(copy.name), first) != _answer(_answers_of(copy.name), second):
            yield "the file"
        answers = [_answer(lambda file: loader_answers(parse_elf(file), asked), file) for file in (first, second)]
        if answers[0] != answers[1]:
            yield "what the loader reads"


def _answers_of(name: str) -> Callable[[Reader], list[Any]]:
    return lambda reader: _answers(parse_elf(reader), name)


def _compare(site_packages: Path, archive: Path, asked: frozenset[Asked]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        copies = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        libraries = [path for path in copies if _LIBRARY.search(path.name) or _PTXAS.search(path.name)]
        faults = [
            f"{copy.relative_to(folder)}: differs in {difference}"
            for copy in libraries
            for difference in differences(site_packages / copy.relative_to(folder), copy, asked)
        ]
    for fault in faults:
        print(fault)
    counts = f"{len(copies)} files, {len(libraries)} libraries, {len(faults)} faults"
    print(f"{archive}: {archive.stat().st_size} bytes, {counts}")
    return 1 if faults else 0


def main() -> int:
    """Parse the command line, write, compare; 1 when a copy is read otherwise than its original."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--beside", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--text", action="append", default=[], metavar="PATTERN")
    arguments = parser.parse_args()

    if arguments.source.is_dir():
        asked = asked_by((arguments.source, *arguments.beside)) | known_symbols()
        choice = Choice(keys=keys_of(asked), texts=tuple(arguments.text))
        write_archive(members_of(arguments.source, choice), arguments.target)
        return _compare(arguments.source, arguments.target, asked)
    write_copy(hollow(arguments.source), arguments.target)
    faults = list(differences(arguments.source, arguments.target))
    for fault in faults:
        print(f"{arguments.target}: differs in {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
