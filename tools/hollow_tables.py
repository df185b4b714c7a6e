"""What the dynamic loader reads of a library, kept for the symbols that are asked for and no others.

Layouts: System V ABI, chapter 5; symbol versions: LSB Core, "Symbol Versioning"; the GNU hash table: glibc,
elf/dl-lookup.c. A symbol that is not kept is a hole in every table, so that no name finds it.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from envdoctor.binary import elf as layout
from envdoctor.binary.elf import Elf, Symbol
from envdoctor.binary.reader import Reader
from envdoctor.binary.symbols import SymbolTable, Version, gnu_hash
from envdoctor.kb.torch_symbols import either_abi

SEGMENT_NOTE, SEGMENT_PROPERTY = 4, 0x6474E553
_LARGEST_NOTE = 4096

_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")  # offset, symbol << 32 | type, addend
_GNU_HASH = struct.Struct("<IIII")  # buckets, first symbol in the table, words of the filter, shift of the filter
_WORD = struct.Struct("<I")
_FILTER_WORD = struct.Struct("<Q")
_FILTER_BITS = 64
_CHAIN_END = 1  # lowest bit of the hash of the last symbol of a chain
_VERSION = struct.Struct("<H")
# vn_version, vn_cnt, vn_file, vn_aux, vn_next; vna_hash, vna_flags, vna_other, vna_name, vna_next
_NEED, _NEED_AUX = struct.Struct("<HHIII"), struct.Struct("<IHHII")
# vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next; vda_name, vda_next
_DEF, _DEF_AUX = struct.Struct("<HHHHIII"), struct.Struct("<II")


class Piece(NamedTuple):
    """Bytes that are kept, and where they lie."""

    offset: int
    content: bytes


@dataclass(frozen=True)
class _Tables:
    """The dynamic symbols of a library, as the loader finds them."""

    library: Elf
    kept: list[Piece] = field(default_factory=list)

    @property
    def reader(self) -> Reader:
        return self.library.reader

    def place(self, tag: int) -> int | None:
        """Where in the file the table lies that an entry of the dynamic table gives the address of."""
        address = self.library.dynamic_value(tag)
        return self.library.offset_of(address) if address else None

    @cached_property
    def symbols_offset(self) -> int:
        return self.place(layout.TAG_SYMBOL_TABLE) or 0

    def symbol(self, index: int) -> Symbol:
        return Symbol(*self.reader.unpack(_SYMBOL, self.symbols_offset + index * _SYMBOL.size))

    def name(self, symbol: Symbol) -> str:
        return self.library.dynamic_string(symbol.name_offset)

    def array(self, offset: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.reader.read(offset, 4 * count))

    # --- what is asked for -----------------------------------------------------------------------------------

    def references(self) -> Iterator[tuple[int, int]]:
        """Yield the symbols that must be found elsewhere, and the first relocation of each, in the loader's order."""
        seen = {0}
        for start, size in ((layout.TAG_RELA, layout.TAG_RELA_SIZE), (layout.TAG_PLT_RELOCATIONS, layout.TAG_PLT_SIZE)):
            offset, length = self.place(start), self.library.dynamic_value(size)
            if offset is None or not length:
                continue
            table = self.reader.read(offset, length // _RELOCATION.size * _RELOCATION.size)
            for number, (_, info, _) in enumerate(_RELOCATION.iter_unpack(table)):
                if (index := info >> 32) not in seen:
                    seen.add(index)
                    if not self.symbol(index).section_index:
                        yield index, offset + number * _RELOCATION.size

    # --- what is kept ----------------------------------------------------------------------------------------

    def keep(self, offset: int, size: int) -> None:
        self.kept.append(Piece(offset, self.reader.read(offset, size)))

    def keep_text(self, name_offset: int) -> None:
        start, _ = self.library.dynamic_strings
        text = self.library.dynamic_string(name_offset).encode()
        self.keep(start + name_offset, len(text) + 1)

    def keep_symbol(self, index: int) -> None:
        self.keep(self.symbols_offset + index * _SYMBOL.size, _SYMBOL.size)
        self.keep_text(self.symbol(index).name_offset)
        if (versions := self.place(layout.TAG_VERSION_SYMBOLS)) is not None:
            self.keep(versions + index * _VERSION.size, _VERSION.size)

    def keep_versions(self) -> None:
        """Keep what versions of symbols the library needs and has."""
        need, definition = self.place(layout.TAG_VERSION_NEEDS), self.place(layout.TAG_VERSION_DEFINITIONS)
        while need is not None:
            _, _, file_name, aux, following = self._keep_row(_NEED, need)
            self.keep_text(file_name)
            self._keep_version_names(_NEED_AUX, need + aux)
            need = need + following if following else None
        while definition is not None:
            *_, aux, following = self._keep_row(_DEF, definition)
            self._keep_version_names(_DEF_AUX, definition + aux)
            definition = definition + following if following else None

    def _keep_version_names(self, row: struct.Struct, entry: int) -> None:
        while True:
            *_, name, following = self._keep_row(row, entry)
            self.keep_text(name)
            if not following:
                return
            entry += following

    def _keep_row(self, row: struct.Struct, offset: int) -> tuple[int, ...]:
        self.keep(offset, row.size)
        return self.reader.unpack(row, offset)

    def keep_gnu_hash(self, offset: int, keys: AbstractSet[str] | None) -> None:
        """Keep of the GNU hash table what leads to the symbols that are kept, and where their chains end."""
        bucket_count, first, word_count, shift = self._keep_row(_GNU_HASH, offset)
        words = offset + _GNU_HASH.size
        buckets = words + _FILTER_WORD.size * word_count
        chains = buckets + _WORD.size * (bucket_count - first)
        bits: Counter[int] = Counter()
        for bucket, index in enumerate(self.array(buckets, bucket_count)):
            chain = list(self._gnu_chain(chains, index)) if index >= first else []
            if not (kept := self._asked(chain, keys)):
                continue
            self.keep(buckets + _WORD.size * bucket, _WORD.size)
            self.kept.append(Piece(chains + _WORD.size * chain[-1], _WORD.pack(_CHAIN_END)))
            for symbol in kept:
                self.keep(chains + _WORD.size * symbol, _WORD.size)
                value = gnu_hash(self.name(self.symbol(symbol)).encode())
                bits[value // _FILTER_BITS % word_count] |= 1 << value % _FILTER_BITS
                bits[value // _FILTER_BITS % word_count] |= 1 << (value >> shift) % _FILTER_BITS
        self.kept.extend(Piece(words + _FILTER_WORD.size * word, _FILTER_WORD.pack(bits[word])) for word in bits)

    def _gnu_chain(self, chains: int, symbol: int) -> Iterator[int]:
        yield symbol
        while not self.array(chains + _WORD.size * symbol, 1)[0] & _CHAIN_END:
            symbol += 1
            yield symbol

    def keep_hash(self, offset: int, keys: AbstractSet[str] | None) -> None:
        """Keep of the hash table of System V the chains that lead to symbols that are kept."""
        self.keep(offset, 2 * _WORD.size)
        bucket_count, count = self.array(offset, 2)
        buckets = offset + 2 * _WORD.size
        chains = buckets + _WORD.size * bucket_count
        following = self.array(chains, count)
        for bucket, index in enumerate(self.array(buckets, bucket_count)):
            chain = list(self._chain(following, index))
            if self._asked(chain, keys):
                self.keep(buckets + _WORD.size * bucket, _WORD.size)
                for symbol in chain:
                    self.keep(chains + _WORD.size * symbol, _WORD.size)

    def _chain(self, following: tuple[int, ...], symbol: int) -> Iterator[int]:
        while symbol:
            yield symbol
            symbol = following[symbol]

    def _asked(self, chain: list[int], keys: AbstractSet[str] | None) -> list[int]:
        """Keep the symbols of a chain that are asked for, and return them."""
        asked = [at for at in chain if keys is None or either_abi(self.name(self.symbol(at))) in keys]
        for symbol in asked:
            self.keep_symbol(symbol)
        return asked


class Asked(NamedTuple):
    """A symbol that some library needs from elsewhere."""

    name: bytes
    version: Version | None


def asked_symbols(library: Elf) -> set[Asked]:
    """Return the symbols that a library needs from elsewhere."""
    return {
        Asked(reference.name, reference.version) for reference in SymbolTable(library).read_references(with_weak=True)
    }


def keys_of(asked: Iterable[Asked]) -> frozenset[str]:
    """Return the keys of symbols, which are the same in both ABIs."""
    return frozenset(either_abi(symbol.name.decode()) for symbol in asked)


def loader_pieces(library: Elf, keys: AbstractSet[str] | None) -> list[Piece]:
    """Find what must be kept so that the loader finds the symbols that have one of these keys; None: all."""
    tables = _Tables(library)
    for segment in library.segments:
        if segment.segment_type in {SEGMENT_NOTE, SEGMENT_PROPERTY} and segment.file_size <= _LARGEST_NOTE:
            tables.keep(segment.offset, segment.file_size)
    for reference in SymbolTable(library).read_references(with_weak=True):
        tables.keep_symbol(reference.symbol)
    for symbol, relocation in tables.references():
        tables.keep(relocation, _RELOCATION.size)
        tables.keep_symbol(symbol)
    tables.keep_versions()
    gnu, sysv = tables.place(layout.TAG_GNU_HASH), tables.place(layout.TAG_HASH)
    if gnu is not None:
        tables.keep_gnu_hash(gnu, keys)
    elif sysv is not None:
        tables.keep_hash(sysv, keys)
    return tables.kept


def loader_answers(library: Elf, asked: Iterable[Asked]) -> list[object]:
    """Ask a library what the dynamic loader asks of it, when the libraries beside it need these symbols."""
    table = SymbolTable(library)
    defined = [table.defines(symbol.name, gnu_hash(symbol.name), symbol.version) for symbol in asked]
    return [needed_names(library), asked_symbols(library), table.needed_versions, table.defined_versions, defined]


def needed_names(library: Elf) -> list[str]:
    """Return the symbols that a library needs from elsewhere, in the order in which the loader looks for them."""
    tables = _Tables(library)
    return [tables.name(tables.symbol(symbol)) for symbol, _ in tables.references()]
