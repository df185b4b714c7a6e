"""Model values to JSON and back, driven by the type annotations of the model."""

import dataclasses
import enum
import math
import reprlib
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, Union

from envdoctor.model.facts import Unavailable

T = TypeVar("T")

_LARGEST_NUMBER = 2**64


class CodecError(ValueError):
    """The JSON does not describe a value of the type asked for; the message starts with the path to the fault."""


def to_json(value: Any) -> Any:
    """Turn a model value into what `json.dumps` accepts; `Unavailable` becomes ``{"unavailable": reason, ...}``."""
    if isinstance(value, Unavailable):
        return {"unavailable": value.reason, "absence": value.absence.value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {fact.name: to_json(getattr(value, fact.name)) for fact in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[T], data: Any) -> T:
    """Rebuild a value of type *kind*; the inverse of `to_json`.

    Fields that *data* lacks take their default, so that old facts stay readable.

    Raises:
        CodecError: *data* is not what `to_json` writes for that type.

    """
    return typing.cast("T", _build(kind, data, "$"))


def _build(kind: Any, data: Any, path: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in {Union, types.UnionType}:
        return _build_union(args, data, path)
    if origin is tuple:
        return _build_tuple(args, data, path)
    if origin or not isinstance(kind, type):
        raise CodecError(f"{path}: cannot read a {kind}")
    if kind is Unavailable:
        return _build_unavailable(data, path)
    if issubclass(kind, enum.Enum):
        return _construct(lambda: kind(data), kind, path)
    if hasattr(kind, "_fields"):
        return _build_named_tuple(kind, data, path)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, path)
    return _build_plain(kind, data, path)


def _build_plain(kind: Any, data: Any, path: str) -> Any:
    # Python's JSON has infinities, not-a-number, and numbers of any length.
    if (type(data) is int and abs(data) > _LARGEST_NUMBER) or (type(data) is float and not math.isfinite(data)):
        raise CodecError(f"{path}: a number that no fact has")
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise CodecError(f"{path}: not a {kind.__name__}: {reprlib.repr(data)}")
    return data


def _build_union(args: tuple[Any, ...], data: Any, path: str) -> Any:
    if data is None and type(None) in args:
        return None
    if isinstance(data, dict) and "unavailable" in data and Unavailable in args:
        return _build_unavailable(data, path)
    [kind] = [arg for arg in args if arg not in {type(None), Unavailable}]
    return _build(kind, data, path)


def _build_tuple(args: tuple[Any, ...], data: Any, path: str) -> Any:
    if not isinstance(data, list):
        raise CodecError(f"{path}: not a list: {reprlib.repr(data)}")
    if args[-1] is Ellipsis:
        return tuple(_build(args[0], item, f"{path}[{index}]") for index, item in enumerate(data))
    if len(args) != len(data):
        raise CodecError(f"{path}: {len(args)} values expected, {len(data)} found")
    return tuple(
        _build(arg, item, f"{path}[{index}]") for index, (arg, item) in enumerate(zip(args, data, strict=True))
    )


def _build_named_tuple(kind: Any, data: Any, path: str) -> Any:
    hints = _hints(kind)
    if not isinstance(data, list) or len(data) != len(hints):
        raise CodecError(f"{path}: not the {len(hints)} values of a {kind.__name__}")
    return kind(*(_build(hint, item, f"{path}.{name}") for (name, hint), item in zip(hints.items(), data, strict=True)))


def _build_dataclass(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise CodecError(f"{path}: not an object: {reprlib.repr(data)}")
    hints = _hints(kind)
    if unknown := data.keys() - hints.keys():
        raise CodecError(f"{path}: unknown field {min(unknown)!r} of a {kind.__name__}")
    values = {name: _build(hints[name], item, f"{path}.{name}") for name, item in data.items()}
    return _construct(lambda: kind(**values), kind, path)


def _build_unavailable(data: Any, path: str) -> Unavailable:
    if not isinstance(data, dict) or not isinstance(data.get("unavailable"), str):
        raise CodecError(f"{path}: not the reason of a missing fact: {reprlib.repr(data)}")
    absence = _build(_hints(Unavailable)["absence"], data.get("absence", "unreadable"), f"{path}.absence")
    return Unavailable(data["unavailable"], absence)


def _construct(make: Callable[[], Any], kind: Any, path: str) -> Any:
    try:
        return make()
    except (TypeError, ValueError) as exc:
        raise CodecError(f"{path}: not a {kind.__name__}: {exc}") from exc


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
