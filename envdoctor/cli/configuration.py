"""Options from `envdoctor.toml` or `[tool.envdoctor]` of `pyproject.toml`; the command line wins over both."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from envdoctor.errors import ConfigurationError

# Options of one run, not of a project.
_NOT_CONFIGURABLE = frozenset({"config", "facts", "help", "is_redacted", "output"})
_PATHS = frozenset({"prefix", "python"})


def apply_configuration(ctx: click.Context, _param: click.Parameter, file: str | None) -> None:
    """Make the nearest configuration, or that of *file*, the defaults of the command that is about to run.

    Raises:
        ConfigurationError: it holds an unknown key or a wrong value; the message names file and key.

    """
    found = _read(Path(file), is_named=True) if file else _find()
    if found is None:
        return
    path, table = found
    options = dict(_configurable(ctx.command))
    known = options.keys() | dict(_configurable(_check())).keys()
    if unknown := sorted(table.keys() - known):
        raise ConfigurationError(f"{path}: unknown key `{unknown[0]}`; known are {', '.join(sorted(known))}")
    ctx.default_map = {
        options[key].name: _value(ctx, options[key], value, where=f"{path}: {key}", folder=path.parent)
        for key, value in table.items()
        if key in options
    }


def _check() -> click.Command:
    # The table is written for `check`; other commands take from it the options that they share.
    from envdoctor.cli.check import command

    return command


def _configurable(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in _NOT_CONFIGURABLE:
            yield max(param.opts, key=len).lstrip("-"), param


def _find() -> tuple[Path, dict[str, Any]] | None:
    try:
        start = Path.cwd()
    except OSError:  # it was deleted
        return None
    for folder in (start, *start.parents):
        for name in ("envdoctor.toml", "pyproject.toml"):
            # `Path.is_file` raises where a folder on the way is locked.
            if os.path.isfile(folder / name) and (found := _read(folder / name, is_named=False)):  # noqa: PTH113
                return found
    return None


def _read(path: Path, *, is_named: bool) -> tuple[Path, dict[str, Any]] | None:
    import tomli

    text = ""
    try:
        # Latin-1 has a character for every byte: what is not UTF-8 may name our table all the same.
        text = (content := path.read_bytes()).decode("latin-1")
        document = tomli.loads(content.decode("utf-8-sig"))
    # TOMLDecodeError and UnicodeDecodeError are ValueErrors; so is a number that is too long.
    except (OSError, ValueError, RecursionError) as exc:
        if is_named or path.name != "pyproject.toml" or "tool.envdoctor" in text:
            raise ConfigurationError(f"{path}: {exc}") from exc
        if isinstance(exc, OSError):  # it may hold our table
            click.echo(f"note: {exc}: passed over", err=True)
        return None  # broken, but none of ours: old repositories have such files
    if path.name != "pyproject.toml":
        return path, document
    tool = document.get("tool", {})
    if not isinstance(tool, dict) or "envdoctor" not in tool:
        return None
    if not isinstance(tool["envdoctor"], dict):
        raise ConfigurationError(f"{path}: tool.envdoctor: not a table")
    return path, tool["envdoctor"]


def _value(ctx: click.Context, option: click.Option, value: Any, *, where: str, folder: Path) -> Any:
    if option.multiple:
        expected, fits = "a list of strings", isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif option.is_flag:
        expected, fits = "true or false", isinstance(value, bool)
    else:
        expected, fits = "a string", isinstance(value, str)
    if not fits:
        raise ConfigurationError(f"{where}: not {expected}: {value!r}")
    if option.name in _PATHS and _is_path(value, option):
        value = str(folder / os.path.expanduser(value))  # noqa: PTH111  `Path.expanduser` raises where there is no such user
    try:
        option.process_value(ctx, value)
    except click.UsageError as exc:
        raise ConfigurationError(f"{where}: {exc.message}") from exc
    return value


def _is_path(value: str, option: click.Option) -> bool:
    # `python = "3.8"` is a version, and `python3.8` a name to look up.
    return bool(value) and (option.name == "prefix" or "/" in value)
