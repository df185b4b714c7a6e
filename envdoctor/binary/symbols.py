"""The dynamic symbol table of an ELF file, asked as glibc asks it (elf/dl-lookup.c, elf/dl-version.c).

Layouts: System V ABI, chapter 5; "Symbol Versioning" of the LSB; the GNU hash table as in binutils, bfd/elflink.c.
Tables that every look-up needs are read whole, symbols and names when they are asked for: those of a library of half a
gigabyte fill tens of megabytes.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import accumulate, repeat
from operator import mul
from typing import NamedTuple

from envdoctor.binary import elf as layout
from envdoctor.binary.elf import Elf, ElfError

_SYMBOL = struct.Struct("<IBBHQQ")  # name, type and binding, visibility, section, value, size
_GNU_HASH = struct.Struct("<4I")  # buckets, first hashed symbol, words of the Bloom filter, its shift
_HASH = struct.Struct("<2I")  # buckets, symbols
_VERSION_NEED = struct.Struct("<HHIII")  # version, count, file, first entry, next
_NEEDED_VERSION = struct.Struct("<IHHII")  # hash, flags, index, name, next
_VERSION_DEFINITION = struct.Struct("<HHHHIII")  # version, flags, index, count, hash, first name, next
_HALF = struct.Struct("<H")
_UINT = struct.Struct("<I")
_RELOCATION_SIZE = 24
_RELOCATION_NONE = 0
_WORD = 8

_BINDING_GLOBAL, _BINDING_WEAK, _BINDING_UNIQUE = 1, 2, 10
_FINDABLE_BINDINGS = frozenset({_BINDING_GLOBAL, _BINDING_WEAK, _BINDING_UNIQUE})
_TYPE_TLS = 6
_FINDABLE_TYPES = frozenset({0, 1, 2, 5, _TYPE_TLS, 10})  # none, object, function, common, TLS, IFUNC
_SECTION_ABSOLUTE = 0xFFF1
_VISIBILITY_INTERNAL, _VISIBILITY_HIDDEN = 1, 2
_LOCAL_VISIBILITIES = frozenset({_VISIBILITY_INTERNAL, _VISIBILITY_HIDDEN})

_VERSION_FLAG_BASE = 1
_VERSION_FLAG_WEAK = 2
_VERSION_INDEX = 0x7FFF
_VERSION_HIDDEN = 0x8000
_OLDEST_VERSION = 3  # references without a version take what has no later one

# Far above what linkers write, far below what would hurt.
_LARGEST_TABLE = 1 << 28
_MOST_VERSIONS = 1 << 15
_LARGEST_STRINGS_IN_MEMORY = 16 << 20
_USUAL_NAME = 256
_BYTES_PER_NAME = 2048  # that are read in the time that one name by itself takes
_CHAIN_STEP = 1 << 12
_LOWEST_BITS = bytes(octet & 1 for octet in range(256))

_MASK = 0xFFFFFFFF
_LONGEST_WEIGHED = 1024
_POWERS = tuple(accumulate(range(_LONGEST_WEIGHED), lambda power, _: power * 33 & _MASK, initial=1))
# Sums of so few products of them with octets stay below 2^53: they are exact, and faster than those of integers.
_WEIGHTS = tuple(map(float, _POWERS))


def gnu_hash(name: bytes) -> int:
    """The hash of a name in a GNU hash table: h = 33 h + byte, from 5381 on, in 32 bits."""
    length = len(name)
    if length > _LONGEST_WEIGHED:
        value = 5381
        for octet in name:
            value = (value * 33 + octet) & _MASK
        return value
    # The same polynomial as a sum of products, which Python forms in a third of the time.
    return (5381 * _POWERS[length] + int(sum(map(mul, _WEIGHTS, name[::-1]), 0.0))) & _MASK


def system_v_hash(name: bytes) -> int:
    """The hash of a name in the hash table of the System V ABI, and of symbol versions."""
    value = 0
    for octet in name:
        value = (value << 4) + octet
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & _MASK
    return value


class Version(NamedTuple):
    """A symbol version: one that a file defines, or one that it asks of another file."""

    name: bytes
    is_hidden: bool = False  # asks for exactly this version: nothing without one will do
    file: str = ""  # which is asked for it


class _Fit(Enum):
    """How the version of a definition fits the one that is asked for."""

    EXACT = auto()
    DEFAULT = auto()  # it will do when it is the only one
    NO = auto()


class NeededVersion(NamedTuple):
    """A version that must exist for a file to be loaded."""

    file: str  # the name by which it needs the library that should have it
    name: bytes
    hash_value: int
    is_weak: bool


class Reference(NamedTuple):
    """A symbol that a file uses and does not define."""

    symbol: int  # its number in the symbol table
    name: bytes
    version: Version | None
    is_weak: bool


@dataclass(frozen=True)
class SymbolTable:
    """The dynamic symbols of one file; its tables are read when they are first needed, once."""

    elf: Elf

    # --- definitions -------------------------------------------------------------------------------------------

    def defines(self, name: bytes, hash_value: int, version: Version | None) -> bool:
        """Tell whether a reference to a symbol is satisfied here; *hash_value* is the GNU hash of its name.

        Raises:
            BinaryError: the tables are damaged or cut off.

        """
        candidates = self._find_candidates(name, hash_value)
        return bool(candidates) and self._is_matched(candidates, name, version)

    def may_define(self, name: bytes) -> bool:
        """Tell by hashes, without the tables of symbols and names: one of a thousand million names is mistaken.

        Raises:
            BinaryError: the tables are damaged or cut off.

        """
        if self._gnu_table is None:  # whose chains are of names with whatever hashes
            return self.defines(name, 0, None)
        return bool(self._find_candidates(name, gnu_hash(name)))

    def _find_candidates(self, name: bytes, hash_value: int) -> Sequence[int]:
        # This runs tens of thousands of times per process: the Bloom filter answers nearly always, so it comes first.
        if (table := self._gnu_table) is None:
            return self._find_by_system_v(name)
        bloom, bloom_mask, shift, buckets, first = table
        word = bloom[(hash_value >> 6) & bloom_mask]
        if not (word >> (hash_value & 63)) & (word >> ((hash_value >> shift) & 63)) & 1:
            return ()
        start = buckets[hash_value % len(buckets)]
        if start < first:
            return ()
        candidates = []
        chains = self._chains
        wanted = hash_value | 1  # the lowest bit marks the end of a chain
        for symbol in range(start, first + len(chains)):
            chained = chains[symbol - first]
            if chained | 1 == wanted:
                candidates.append(symbol)
            if chained & 1:
                break
        return candidates

    def _find_by_system_v(self, name: bytes) -> list[int]:
        if (table := self._system_v_table) is None:
            return []
        buckets, chains = table
        index = buckets[system_v_hash(name) % len(buckets)]
        found: list[int] = []
        while 0 < index < len(chains) and len(found) < len(chains):  # a damaged chain may be a circle
            found.append(index)
            index = chains[index]
        return found

    def _is_matched(self, candidates: Sequence[int], name: bytes, version: Version | None) -> bool:
        """Choose among the definitions of a name as `do_lookup_x` and `check_match` do."""
        defaults = []
        table, end = self._symbol_table, len(self._symbol_table)
        for symbol in candidates:
            place = symbol * _SYMBOL.size
            if place + _SYMBOL.size > end:
                raise ElfError("a hash of no symbol", self._symbols + place)
            name_offset, kind, visibility, section, value, _ = _SYMBOL.unpack_from(table, place)
            has_value = value or section == _SECTION_ABSOLUTE or kind & 0xF == _TYPE_TLS
            is_definition = section and has_value and kind & 0xF in _FINDABLE_TYPES
            if not is_definition or not self._is_named(name_offset, name):
                continue
            is_found = kind >> 4 in _FINDABLE_BINDINGS and visibility & 3 not in _LOCAL_VISIBILITIES
            fit = self._fit(symbol, version)
            if fit is _Fit.EXACT:
                return is_found
            if fit is _Fit.DEFAULT:
                defaults.append(is_found)
        # Several versions and none of them asked for: the loader does not choose.
        return len(defaults) == 1 and defaults[0]

    def _fit(self, symbol: int, version: Version | None) -> _Fit:
        if self._version_symbols is None:
            return _Fit.EXACT
        place = symbol * _HALF.size
        if place + _HALF.size > len(self._version_table):
            raise ElfError("a symbol without a version", self._version_symbols + place)
        (own,) = _HALF.unpack_from(self._version_table, place)
        is_hidden = own & _VERSION_HIDDEN
        if version is None:
            if own & _VERSION_INDEX < _OLDEST_VERSION:
                return _Fit.EXACT
            return _Fit.NO if is_hidden else _Fit.DEFAULT
        defined = self._versions.get(own & _VERSION_INDEX)
        if defined is not None:
            return _Fit.EXACT if defined.name == version.name else _Fit.NO
        return _Fit.NO if is_hidden or version.is_hidden else _Fit.DEFAULT

    def _is_named(self, name_offset: int, name: bytes) -> bool:
        strings = self._strings
        if strings is None:
            return self._name_at(name_offset) == name
        end = name_offset + len(name)
        return strings.startswith(name, name_offset) and strings[end : end + 1] == b"\0"

    # --- references --------------------------------------------------------------------------------------------

    def read_references(self, *, with_weak: bool) -> list[Reference]:
        """Read what the file uses and does not define, in the order of its symbol table.

        Raises:
            BinaryError: the tables are damaged or cut off.

        """
        bindings = _FINDABLE_BINDINGS if with_weak else _FINDABLE_BINDINGS - {_BINDING_WEAK}
        count = self._reference_count
        table = self.elf.reader.read(self._symbols, count * _SYMBOL.size) if count else b""
        if self._version_symbols is None or not count:
            versions: Iterable[int] = repeat(0, count)
        else:
            versions = memoryview(self.elf.reader.read(self._version_symbols, count * _HALF.size)).cast("H")
        name_at = self._name_reader(count)
        version_of = self._versions.get
        found = []
        # Columns of the table: made of them are only the few fields that are needed.
        kinds, visibilities, sections = table[4::24], table[5::24], memoryview(table).cast("H")[3::12]
        columns = zip(memoryview(table).cast("I")[::6], kinds, visibilities, sections, versions, strict=True)
        for number, (name_offset, kind, visibility, section, version) in enumerate(columns):
            if section or kind >> 4 not in bindings or visibility & 3 in _LOCAL_VISIBILITIES or not number:
                continue
            needed = version_of(version & _VERSION_INDEX) if version else None
            found.append(Reference(number, name_at(name_offset), needed, kind >> 4 == _BINDING_WEAK))
        return found

    def read_relocated(self, *, with_calls: bool) -> Iterator[int]:
        """Yield the indexes of the symbols that relocations use, in the order in which the loader goes through them.

        Raises:
            BinaryError: the tables are damaged or cut off.

        """
        relative = self.elf.dynamic_value(layout.TAG_RELA_COUNT) or 0
        tables = [(layout.TAG_RELA, layout.TAG_RELA_SIZE, relative)]
        if with_calls:
            tables.append((layout.TAG_PLT_RELOCATIONS, layout.TAG_PLT_SIZE, 0))
        for place, size, relative in tables:
            address, length = self.elf.dynamic_value(place), self.elf.dynamic_value(size)
            skipped = relative * _RELOCATION_SIZE  # they come first, and use no symbol
            if address is None or not length or skipped >= length:
                continue
            content = self._read_table(address + skipped, (length - skipped) // _RELOCATION_SIZE * _RELOCATION_SIZE)
            for info in memoryview(content).cast("Q")[1::3]:
                if info >> 32 and info & _MASK != _RELOCATION_NONE:
                    yield info >> 32

    @cached_property
    def _reference_count(self) -> int:
        """How many symbols must be looked at: the GNU hash table leaves undefined ones out, and they come first."""
        if self._gnu_table is None:
            return 0 if self._system_v_table is None else len(self._system_v_table[1])
        if any(self._gnu_table[3]):
            return self._gnu_table[4]
        return (
            max(self.read_relocated(with_calls=True), default=-1) + 1
        )  # nothing is defined, and linkers write any number

    def _name_reader(self, count: int) -> Callable[[int], bytes]:
        """Choose how *count* names are read: one by one where the table holds far more, else it is read whole, once."""
        start, end = self.elf.dynamic_strings
        content = self._strings if end - start <= count * _BYTES_PER_NAME else None
        if content is None:
            return self._name_at

        def name_at(offset: int) -> bytes:
            if (length := content.find(b"\0", offset)) < 0:
                raise ElfError("a name without an end", self.elf.dynamic_strings[0] + offset)
            return content[offset:length]

        return name_at

    def _name_at(self, offset: int) -> bytes:
        start, end = self.elf.dynamic_strings
        piece = self.elf.reader.peek(start + offset, min(_USUAL_NAME, end - start - offset))
        if (length := piece.find(b"\0")) >= 0:
            return piece[:length]
        return self.elf.reader.text(start + offset, end).encode()

    # --- versions ----------------------------------------------------------------------------------------------

    @cached_property
    def needed_versions(self) -> tuple[NeededVersion, ...]:
        """The versions that other files must have, in the order in which the loader looks for them (DT_VERNEED)."""
        return tuple(
            NeededVersion(file, name, hash_value, bool(flags & _VERSION_FLAG_WEAK))
            for file, hash_value, flags, _, name in self._version_needs
        )

    @cached_property
    def defined_versions(self) -> dict[bytes, int] | None:
        """The versions that the file has, with their hashes, its own name among them; None without DT_VERDEF."""
        if not self._has_definitions:
            return None
        return {name: hash_value for _, _, hash_value, name in self._version_definitions}

    @cached_property
    def _versions(self) -> dict[int, Version]:
        """The versions that the table of symbol versions refers to, by their index."""
        found = {
            index & _VERSION_INDEX: Version(name, bool(index & _VERSION_HIDDEN), file)
            for file, _, _, index, name in self._version_needs
        }
        for flags, index, _, name in self._version_definitions:
            if not flags & _VERSION_FLAG_BASE:
                found[index & _VERSION_INDEX] = Version(name)
        return found

    @cached_property
    def _version_needs(self) -> list[tuple[str, int, int, int, bytes]]:
        """File, hash, flags, index and name of every version that is needed."""
        return list(self._read_version_needs())

    def _read_version_needs(self) -> Iterator[tuple[str, int, int, int, bytes]]:
        place = self._offset_of(layout.TAG_VERSION_NEEDS)
        for _ in range(_MOST_VERSIONS):
            if place is None:
                return
            _, _, file, entry, following = self.elf.reader.unpack(_VERSION_NEED, place)
            file_name = self.elf.dynamic_string(file)
            inner: int | None = place + entry
            for _ in range(_MOST_VERSIONS):
                if inner is None:
                    break
                hash_value, flags, index, name, next_entry = self.elf.reader.unpack(_NEEDED_VERSION, inner)
                yield file_name, hash_value, flags, index, self._name_at(name)
                inner = inner + next_entry if next_entry else None
            place = place + following if following else None

    @cached_property
    def _version_definitions(self) -> list[tuple[int, int, int, bytes]]:
        """Flags, index, hash and name of every version that is defined."""
        return list(self._read_version_definitions())

    def _read_version_definitions(self) -> Iterator[tuple[int, int, int, bytes]]:
        place = self._offset_of(layout.TAG_VERSION_DEFINITIONS)
        for _ in range(_MOST_VERSIONS):
            if place is None:
                return
            _, flags, index, _, hash_value, names, following = self.elf.reader.unpack(_VERSION_DEFINITION, place)
            (name,) = self.elf.reader.unpack(_UINT, place + names)
            yield flags, index, hash_value, self._name_at(name)
            place = place + following if following else None

    # --- tables ------------------------------------------------------------------------------------------------

    @cached_property
    def _symbols(self) -> int:
        place = self._offset_of(layout.TAG_SYMBOL_TABLE)
        if place is None:
            raise ElfError("a dynamic table without symbols", self.elf.header.segments_offset)
        return place

    @cached_property
    def _symbol_table(self) -> bytes:
        """The symbols that the hash table leads to, and those before them."""
        if self._gnu_table is None:
            count = 0 if self._system_v_table is None else len(self._system_v_table[1])
        else:
            count = self._gnu_table[4] + len(self._chains)
        return self._read_at(self._symbols, count * _SYMBOL.size)

    @cached_property
    def _version_table(self) -> bytes:
        count = len(self._symbol_table) // _SYMBOL.size
        return b"" if self._version_symbols is None else self._read_at(self._version_symbols, count * _HALF.size)

    @cached_property
    def _strings(self) -> bytes | None:
        """The names of all symbols, unless they are very many."""
        start, end = self.elf.dynamic_strings
        return self.elf.reader.read(start, end - start) if end - start <= _LARGEST_STRINGS_IN_MEMORY else None

    @cached_property
    def _version_symbols(self) -> int | None:
        # Without any version the loader does not look at the table (`_dl_check_map_versions`).
        return self._offset_of(layout.TAG_VERSION_SYMBOLS) if self._versions or self._has_definitions else None

    @property
    def _has_definitions(self) -> bool:
        return self.elf.dynamic_value(layout.TAG_VERSION_DEFINITIONS) is not None

    @cached_property
    def _gnu_table(self) -> "tuple[memoryview, int, int, memoryview, int] | None":
        """Bloom filter, mask of its index, its shift, buckets, number of the first symbol that has a hash."""
        place = self._offset_of(layout.TAG_GNU_HASH)
        if place is None:
            return None
        bucket_count, first, bloom_size, shift = self.elf.reader.unpack(_GNU_HASH, place)
        if not bucket_count or not bloom_size or bloom_size & (bloom_size - 1):
            raise ElfError(f"a GNU hash table of {bucket_count} buckets and {bloom_size} words", place)
        place += _GNU_HASH.size
        bloom = self._read_at(place, bloom_size * _WORD)
        place += bloom_size * _WORD
        buckets = memoryview(self._read_at(place, bucket_count * 4)).cast("I")
        return memoryview(bloom).cast("Q"), bloom_size - 1, shift, buckets, first

    @cached_property
    def _chains(self) -> memoryview:
        """The hashes of all symbols that have one, from the first on, as the GNU hash table lists them."""
        place = self._offset_of(layout.TAG_GNU_HASH)
        if place is None or self._gnu_table is None:
            return memoryview(b"").cast("I")
        bloom, _, _, buckets, first = self._gnu_table
        place += _GNU_HASH.size + bloom.nbytes + buckets.nbytes
        return memoryview(self._read_chains(place, first, max(buckets))).cast("I")

    def _read_chains(self, place: int, first: int, last_start: int) -> bytes:
        """Read the hashes of all symbols: up to the end of the chain that begins last."""
        if last_start < first:
            return b""
        content = self._read_at(place, (last_start - first) * 4)
        for _ in range(_LARGEST_TABLE // _CHAIN_STEP):
            piece = self.elf.reader.peek(place + len(content), _CHAIN_STEP)
            end = piece[::4].translate(_LOWEST_BITS).find(1)
            if end >= 0 or len(piece) < _CHAIN_STEP:
                return content + piece[: (end + 1) * 4 if end >= 0 else len(piece) // 4 * 4]
            content += piece
        raise ElfError("a chain of hashes without an end", place)

    @cached_property
    def _system_v_table(self) -> tuple[memoryview, memoryview] | None:
        """Buckets and chains."""
        place = self._offset_of(layout.TAG_HASH)
        if place is None:
            return None
        bucket_count, symbol_count = self.elf.reader.unpack(_HASH, place)
        if not bucket_count:
            return None
        words = memoryview(self._read_at(place + _HASH.size, (bucket_count + symbol_count) * 4)).cast("I")
        return words[:bucket_count], words[bucket_count:]

    def _offset_of(self, tag: int) -> int | None:
        address = self.elf.dynamic_value(tag)
        return None if address is None else self.elf.offset_of(address)

    def _read_table(self, address: int, size: int) -> bytes:
        return self._read_at(self.elf.offset_of(address), size)

    def _read_at(self, place: int, size: int) -> bytes:
        if size > _LARGEST_TABLE:
            raise ElfError(f"a table of {size} bytes", place)
        return self.elf.reader.read(place, size)
