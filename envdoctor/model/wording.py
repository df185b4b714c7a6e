"""How messages put things that may be several."""

from collections.abc import Iterable, Sequence


def enumerate_all(things: Iterable[object]) -> str:
    """Write ``8.9``, ``8.9 and 8.6`` or ``8.9, 8.6 and 6.1``."""
    words = [str(thing) for thing in things]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def name_first(things: Sequence[str]) -> str:
    """Write ``numpy``, ``numpy and 1 other`` or ``numpy and 5 others``."""
    others = len(things) - 1
    return things[0] if not others else f"{things[0]} and {others} other{'s' * (others > 1)}"
