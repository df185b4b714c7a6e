"""The order in which glibc relocates what an opening brings: needed libraries first (elf/dl-sort-maps.c)."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from envdoctor.binary.loadable import GlibcVersion

T = TypeVar("T")

_SORTS_DEPTH_FIRST = (2, 35)


def sort_by_dependency(scope: Sequence[T], needed: Mapping[T, Sequence[T]], glibc: GlibcVersion) -> list[T]:
    """Sort what is in the scope of its first item, each before what it needs; the loader relocates from the end."""
    if glibc >= _SORTS_DEPTH_FIRST:
        return _sort_depth_first(scope, needed)
    return [scope[0], *_sort_by_moving(scope[1:], needed)]


def _sort_depth_first(scope: Sequence[T], needed: Mapping[T, Sequence[T]]) -> list[T]:
    found: dict[T, None] = {}  # in the reverse of the order
    entered: set[T] = set()
    for start in reversed(scope):
        waiting = [(start, iter(_needed_below(start, scope, needed)))] if start not in entered else []
        entered.add(start)
        while waiting:
            item, below = waiting[-1]
            following = next((each for each in below if each not in entered), None)
            if following is None:
                found[item] = None
                waiting.pop()
                continue
            entered.add(following)
            waiting.append((following, iter(_needed_below(following, scope, needed))))
    inside = set(scope)
    order = [item for item in reversed(found) if item in inside and item != scope[0]]
    return [scope[0], *order]


def _needed_below(item: T, scope: Sequence[T], needed: Mapping[T, Sequence[T]]) -> Sequence[T]:
    # What is being opened has no list of its dependencies yet.
    return () if item == scope[0] else needed.get(item, ())


def _sort_by_moving(items: Sequence[T], needed: Mapping[T, Sequence[T]]) -> list[T]:
    """Move each item behind the last one that needs it, until nothing moves or everything was seen too often."""
    order = list(items)
    count = len(order)
    seen = [0] * count
    place = 0
    while place < count:
        seen[place] += 1
        item = order[place]
        users = (k for k in range(count - 1, place, -1) if item in needed.get(order[k], ()))
        last_user = next(users, None)
        if last_user is None:
            place += 1
        else:
            order[place : last_user + 1] = [*order[place + 1 : last_user + 1], item]
            if seen[place + 1] <= count - place:
                seen[place : last_user + 1] = [*seen[place + 1 : last_user + 1], seen[place]]
                continue
            place += 1
        seen[place:] = [0] * (count - place)
    return order
