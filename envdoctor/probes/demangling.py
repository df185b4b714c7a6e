"""The names of C++ symbols as people write them, through libstdc++'s own demangler."""

import re
from collections.abc import Callable, Iterable
from functools import cache

# Names that are made to be long demangle to texts without measure.
_LONGEST = 4096

# What it writes for `std::string`: the one of the C++11 ABI, and the one before it (Ss, or spelt out).
_STRING = re.compile(r"std::(__cxx11::)?basic_string<char, std::char_traits<char>, std::allocator<char> ?>")
# What GCC marks in names whose types changed with the C++11 ABI: GCC manual, "Dual ABI"; `std::list` is the other type.
_ABI_MARK = re.compile(r"\[abi:cxx11\]|__cxx11::")
_DEFAULT_ALLOCATOR = ", std::allocator<"


def demangle(name: str) -> str:
    """Write a symbol as C++ does, with `std::string` for what that stands for; what is no C++ name stays as it is."""
    return _shorten(_demangler()(name)) if name.startswith("_Z") and len(name) <= _LONGEST else name


def demangle_all(names: Iterable[str]) -> tuple[str, ...]:
    """Write symbols as C++ does; () where not even one of them is a C++ name."""
    names = tuple(names)
    written = tuple(map(demangle, names))
    return written if written != names else ()


def without_abi(name: str) -> str:
    """Write a symbol so that the ABI of the standard library does not show."""
    return _ABI_MARK.sub("", demangle(name))


def _shorten(text: str) -> str:
    text = _STRING.sub("std::string", text)
    place = text.rfind(_DEFAULT_ALLOCATOR)
    while place >= 0:
        # A container's allocator is its last argument; that of `f(int, std::allocator<int> const&)` is no default.
        tail = text[place + len(_DEFAULT_ALLOCATOR) :]
        rest = tail[_end_of_arguments(tail) :].lstrip(" ")
        text = text[:place] + rest if rest.startswith(">") else text
        place = text.rfind(_DEFAULT_ALLOCATOR, 0, place)
    return text.replace("> >", ">>")


def _end_of_arguments(text: str) -> int:
    """Return where a list of template arguments ends that was opened before *text*."""
    depth = 1
    for place, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if not depth:
            return place + 1
    return 0


@cache
def _demangler() -> Callable[[str], str]:
    """The demangler of this machine's libstdc++ (Itanium C++ ABI, 3.4); where there is none, names stay."""
    import ctypes  # most environments have nothing to demangle

    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return str
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    free.argtypes = (ctypes.c_void_p,)

    def call(name: str) -> str:
        written = function(name.encode(), None, None, None)
        if not written:
            return name
        try:
            return ctypes.string_at(written).decode("utf-8", "backslashreplace")
        finally:
            free(written)

    return call
