"""Reads TOML tables into rows, and says where a table is malformed.

A table may write a tuple of words as one string (``arch_list = "sm_70 sm_75"``) and a tuple of one number as the
number. `source` names entries of the file's ``[sources]``, which hold the full text.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import tomli

from envdoctor.errors import KnowledgeBaseError
from envdoctor.kb.tables import Row

R = TypeVar("R", bound=Row)

Convert = Callable[[Any], Any]


def read_document(path: Path) -> dict[str, Any]:
    """Parse one file of the knowledge base.

    Raises:
        KnowledgeBaseError: the file is missing, or is not TOML.

    """
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as exc:
        raise KnowledgeBaseError(f"{path.name}: {exc}") from exc


def read_rows(document: Mapping[str, Any], file: str, table: str, kind: type[R]) -> tuple[R, ...]:
    """Turn the array of tables *table* of *document* into rows of *kind*.

    Raises:
        KnowledgeBaseError: a row is malformed; the message names file, row and field.

    """
    schema = _Schema(
        converters={field.name: _converter(field.type) for field in fields(kind)},
        required=frozenset(field.name for field in fields(kind) if field.default is MISSING),
        sources=document.get("sources", {}),
    )
    rows = document.get(table, [])
    return tuple(kind(**schema.read(row, f"{file}: {table}[{index}]")) for index, row in enumerate(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schema:
    """What the rows of one table must look like."""

    converters: Mapping[str, Convert]
    required: frozenset[str]
    sources: Mapping[str, str]

    def read(self, row: dict[str, Any], path: str) -> dict[str, Any]:
        if unknown := row.keys() - self.converters.keys():
            raise KnowledgeBaseError(f"{path}.{min(unknown)}: not a field of this table")
        if missing := self.required - row.keys():
            raise KnowledgeBaseError(f"{path}.{min(missing)}: missing")
        values = {name: _read_value(value, self.converters[name], f"{path}.{name}") for name, value in row.items()}
        if unknown := set(values["source"]) - self.sources.keys():
            raise KnowledgeBaseError(f"{path}.source: {min(unknown)!r} is not in [sources]")
        values["source"] = tuple(self.sources[key] for key in values["source"])
        return values


def _read_value(value: Any, convert: Convert, path: str) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError) as exc:
        raise KnowledgeBaseError(f"{path}: {exc}") from exc


def _converter(annotation: Any) -> Convert:
    if get_origin(annotation) is types.UnionType:
        [annotation] = [arg for arg in get_args(annotation) if arg is not types.NoneType]
    if get_origin(annotation) is tuple:
        return _tuple_converter(_converter(get_args(annotation)[0]))
    if hasattr(annotation, "parse"):
        return _text_converter(annotation.parse)
    return _plain_converter(annotation)


def _tuple_converter(convert: Convert) -> Convert:
    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str):
            value = value.split()
        return tuple(map(convert, value if isinstance(value, list) else [value]))

    return read


def _text_converter(parse: Convert) -> Convert:
    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError(f"not text: {value!r}")
        return parse(value)

    return read


def _plain_converter(kind: type[str | int | float | date]) -> Convert:
    def read(value: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise TypeError(f"not a {kind.__name__}: {value!r}")
        return value

    return read
