"""Which symbols of a new library nothing defines, looked up as glibc does when it relocates (elf/dl-lookup.c)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from envdoctor.binary.link_map import LinkMap
from envdoctor.binary.loadable import GlibcVersion, LibraryImage
from envdoctor.binary.symbols import Reference, Version, gnu_hash

# Before, a symbol that the file named by its version lacks ended the search, in words of its own.
_SEARCHES_ON = (2, 30)


class Binding(Enum):
    """When symbols are looked up."""

    NOW = "now"  # RTLD_NOW: all of them
    LAZY = "lazy"  # RTLD_LAZY: functions when they are first called
    NEVER = "never"  # not at all: to know in a moment what is loaded


@dataclass(frozen=True, slots=True)
class Providers:
    """Who was found to define what, in all scopes so far."""

    # Which file was last found to define a symbol, by the version that is asked for, and by name.
    by_symbol: defaultdict[Version | None, dict[bytes, LibraryImage]] = field(default_factory=lambda: defaultdict(dict))
    # For a file all of whose symbols were found: which files define them. Many modules need the same large libraries.
    by_user: dict[LibraryImage, frozenset[LibraryImage]] = field(default_factory=dict)


class Lookup:
    """Symbols, looked up in one scope."""

    def __init__(
        self, scope: list[LinkMap], by_name: Mapping[str, LinkMap], providers: Providers, glibc: GlibcVersion
    ) -> None:
        self._in_order = [loaded.image for loaded in scope]
        self._scope = frozenset(self._in_order)
        self._by_name = by_name
        self._providers = providers
        self._likeliest_first = list(self._in_order)
        self._searches_on = glibc >= _SEARCHES_ON

    def find_undefined(self, image: LibraryImage, binding: Binding) -> list[Reference]:
        """Find what nothing defines of the symbols that a file uses, in the loader's order.

        Raises:
            BinaryError: the tables of a file are damaged or cut off.

        """
        known = self._providers.by_user.get(image)
        if known is not None and known <= self._scope:
            return []
        symbols = image.symbols
        references = symbols.read_references(with_weak=not self._searches_on)
        missing = self._find_missing(image, references) if self._searches_on else self._find_missing_before(references)
        if not missing:
            return []
        # Only what a relocation uses is looked up.
        relocated = symbols.read_relocated(with_calls=binding is Binding.NOW or image.binds_now)
        return [missing[symbol] for symbol in dict.fromkeys(relocated) if symbol in missing]

    def _find_missing(self, user: LibraryImage | None, references: Iterable[Reference]) -> dict[int, Reference]:
        """Find the references that nothing satisfies, where the order does not matter, and note who satisfies them."""
        missing, used = {}, set()
        by_symbol, in_scope = self._providers.by_symbol, self._scope
        for reference in references:
            symbol, name, version, _ = reference
            known = by_symbol[version]
            provider = known.get(name)
            if provider not in in_scope:
                provider = self._find_provider(reference)
                if provider is None:
                    missing[symbol] = reference
                    continue
                known[name] = provider
            used.add(provider)
        if user and not missing:
            self._providers.by_user[user] = frozenset(used)
        return missing

    def _find_missing_before(self, references: Iterable[Reference]) -> dict[int, Reference]:
        """Find them for a glibc that does not search on behind the file that a version names."""
        plain = [reference for reference in references if not reference.version and not reference.is_weak]
        versioned = [reference for reference in references if reference.version]
        unsatisfied = [reference for reference in versioned if not self._is_satisfied_in_order(reference)]
        return self._find_missing(None, plain) | {reference.symbol: reference for reference in unsatisfied}

    def _find_provider(self, reference: Reference) -> LibraryImage | None:
        """Find a file that defines a symbol: whether there is one does not depend on who is asked first."""
        _, name, version, _ = reference
        hash_value = gnu_hash(name)
        named = self._named(reference) if version else None
        if named and named.symbols.defines(name, hash_value, version):
            return named
        for place, image in enumerate(self._likeliest_first):
            if image.symbols.defines(name, hash_value, version):
                if place:  # the next symbols are likely to be in the same file
                    self._likeliest_first.insert(0, self._likeliest_first.pop(place))
                return image
        return None

    def _is_satisfied_in_order(self, reference: Reference) -> bool:
        hash_value = gnu_hash(reference.name)
        named = self._named(reference)
        for image in self._in_order:
            if image.symbols.defines(reference.name, hash_value, reference.version):
                return True
            if image is named:
                return False
        return reference.is_weak

    def _named(self, reference: Reference) -> LibraryImage | None:
        """The file that the version of a reference names, where it is in scope."""
        found = self._by_name.get(reference.version.file) if reference.version else None
        return found.image if found and found.image in self._scope else None

    def complain(self, reference: Reference) -> str:
        """Say that nothing defines a symbol."""
        name = as_text(reference.name)
        if reference.version is None:
            return f"undefined symbol: {name}"
        version = as_text(reference.version.name)
        if self._searches_on or self._named(reference) is None:
            return f"undefined symbol: {name}, version {version}"
        return f"symbol {name} version {version} not defined in file {reference.version.file} with link time reference"


def as_text(name: bytes) -> str:
    """Make a symbol or a version a text, whatever its bytes are."""
    return name.decode("utf-8", "backslashreplace")
