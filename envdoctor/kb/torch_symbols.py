"""Which releases of torch define the symbols that a compiled extension asks for."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envdoctor.kb.tables import TorchSymbolsRow

# What differs between the names of one function under both ABIs of std::string: the string itself, and the references
# back to it and to what follows it (Itanium C++ ABI, 5.1.8 and 5.1.9); and the tag of functions that return one.
_STRING = re.compile(r"NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE|Ss|S[0-9A-Z]*_")
_TAG = "B5cxx11"

_NEW_STRING = "NSt7__cxx1112basic_string"
# Not the mere `Ss`, which names of other things hold too: by reference, after a nested name, as a template argument.
_OLD_STRING = re.compile(r"RKSs|ESs|ISs[EIS]")

# A name in a namespace of torch: not one that only takes a thing of torch, as an operator of a project's own does.
# Compiled when there is a symbol to be told apart.
_TORCH_SYMBOL = (
    r"_Z(?:T[ISVT]|Tc?(?:hn?\d+_|vn?\d+_n?\d+_)+|GV|GR)?N[rVKRO]*(?:2at|3c10|5torch|6caffe2)(?=[\dCDEILSc-z])"
    r"|aoti_torch_|torch_[a-z]|THP[A-Z]|THC[A-Z]\w+_"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchReleases:
    """The releases of torch that define every one of some symbols, e.g. 2.1 to 2.2; a bound that is not known is ""."""

    first: str
    last: str
    first_by: tuple[str, ...]  # those of the symbols that no older release defines
    last_by: tuple[str, ...]  # those that no newer one defines
    cxx11_abi: bool | None  # which std::string the symbols name; None when they name none

    def __str__(self) -> str:
        if self.first == self.last:
            return self.first
        if not self.last:
            return f"{self.first} or newer"
        return f"{self.first} to {self.last}" if self.first else f"{self.last} or older"


def is_torch_symbol(name: str) -> bool:
    """Tell whether torch would define a symbol, by its name."""
    return re.match(_TORCH_SYMBOL, name) is not None


def either_abi(symbol: str) -> str:
    """Return a key that the names of one function under both ABIs of std::string share."""
    return _STRING.sub("#", symbol.replace(_TAG, ""))


def names_cxx11_strings(symbols: Iterable[str]) -> bool | None:
    """Tell by the names of symbols with which ABI of std::string the code that asks for them was compiled.

    None when no name has a string, or when names of both have one.
    """
    symbols = tuple(symbols)
    is_new = any(_NEW_STRING in symbol or _TAG in symbol for symbol in symbols)
    is_old = any(_OLD_STRING.search(symbol) for symbol in symbols)
    return None if is_new == is_old else is_new


class TorchSymbols:
    """The symbols that releases of torch brought or dropped."""

    def __init__(self, rows: Iterable[TorchSymbolsRow]) -> None:
        self._rows = {either_abi(name): row for row in rows for name in row.names}

    def find_releases(self, symbols: Iterable[str]) -> TorchReleases | None:
        """Find the releases that define all symbols; those that the table does not have are left out.

        None when the table has none of them, and when no release defines them all.
        """
        symbols = tuple(dict.fromkeys(symbols))
        known = [(symbol, row) for symbol in symbols if (row := self._rows.get(either_abi(symbol)))]
        first = max((row.first for _, row in known), key=_order, default="")
        last = min((row.last for _, row in known if row.last), key=_order, default="")
        if not known or (last and _order(first) > _order(last)):
            return None
        return TorchReleases(
            first=first,
            last=last,
            first_by=tuple(symbol for symbol, row in known if first and row.first == first),
            last_by=tuple(symbol for symbol, row in known if last and row.last == last),
            cxx11_abi=names_cxx11_strings(symbols),
        )


def _order(release: str) -> tuple[int, ...]:
    """Order releases; no bound below comes first."""
    return tuple(map(int, release.split("."))) if release else ()
