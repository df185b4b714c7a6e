"""How messages put things that may be several."""

from collections.abc import Iterable


def enumerate_all(things: Iterable[object]) -> str:
    """Write ``8.9``, ``8.9 and 8.6`` or ``8.9, 8.6 and 6.1``."""
    words = [str(thing) for thing in things]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
