"""Symbols that differ in the ABI of `std::string` alone: the sign of a library built with the other C++11 ABI."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from envdoctor.binary.binding import as_text
from envdoctor.binary.elf import parse_elf
from envdoctor.binary.reader import BinaryError, open_file
from envdoctor.binary.symbols import SymbolTable, gnu_hash
from envdoctor.probes.demangling import without_abi

# The part of a mangled name before everything that the ABI changes: what kind of symbol it is, and its scopes and
# identifiers (Itanium C++ ABI, 5.1). Types of parameters, tags and back references come later.
_START = re.compile(r"_Z(T[VTIS])?(NK?|N)?(St)?")
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_LONGEST_NAME = 4096
_MOST_CANDIDATES = 500


@dataclass(frozen=True)
class AbiTwins:
    """The libraries of torch, asked for the twins of symbols."""

    libraries: tuple[str, ...]
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, symbol: str) -> tuple[str, ...]:
        """Find the symbols that torch defines and that are *symbol* but for the ABI."""
        if symbol not in self._known:
            prefix = _prefix_of(symbol)
            plain = without_abi(symbol)
            found = self._find_defined(prefix) if prefix and plain != symbol else ()
            self._known[symbol] = tuple(dict.fromkeys(name for name in found if without_abi(name) == plain))
        return tuple(name for name in self._known[symbol] if name != symbol)

    def _find_defined(self, prefix: str) -> Iterator[str]:
        for path in self.libraries:
            yield from _find_defined(path, prefix)


def _prefix_of(symbol: str) -> str:
    start = _START.match(symbol)
    place = start.end() if start else 0
    while length := _LENGTH.match(symbol, place):
        place = length.end() + int(length[0])
    return symbol[:place] if start and place > start.end() else ""


def _find_defined(path: str, prefix: str) -> Iterable[str]:
    """Find the symbols with this prefix in the table of strings, which is faster than to go through the symbols."""
    pattern = re.compile(rb"\0(%b[^\0]*)(?=\0)" % re.escape(prefix.encode()))
    try:
        with open_file(path) as reader:
            elf = parse_elf(reader)
            chunks = reader.chunks(*elf.dynamic_strings, _LONGEST_NAME)
            names = dict.fromkeys(match[1] for _, chunk in chunks for match in pattern.finditer(chunk))
            symbols = SymbolTable(elf)
            candidates = list(names)[:_MOST_CANDIDATES]
            return [as_text(name) for name in candidates if symbols.defines(name, gnu_hash(name), None)]
    except (OSError, BinaryError):  # the prediction for torch says it
        return []
