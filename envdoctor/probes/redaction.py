"""Takes out of facts what names a person or a machine, before they leave it."""

import getpass
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from envdoctor.model.codec import from_json, to_json
from envdoctor.model.facts import Facts

# Names that tell nobody apart.
_COMMON_USERS = frozenset({"", "root"})
_COMMON_HOSTS = frozenset({"", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is not to be told."""

    homes: tuple[str, ...]  # spellings of the home directory
    users: tuple[str, ...]
    hosts: tuple[str, ...]


def find_identity() -> Identity:
    """Ask the machine who and where we are."""
    home = os.path.expanduser("~")  # `Path.home` raises where there is none
    host = socket.gethostname()
    homes = {home, os.path.realpath(home)} - {"/"} if os.path.isabs(home) else set()
    return Identity(
        homes=tuple(sorted(homes, key=len, reverse=True)),
        users=tuple({_user()} - _COMMON_USERS),
        hosts=tuple(sorted({host, host.partition(".")[0]} - _COMMON_HOSTS, key=len, reverse=True)),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that no passwd file knows
        return ""


def redact(facts: Facts, identity: Identity) -> Facts:
    """Replace home directories by ``~``, users by ``USER``, hosts by ``HOST``, and drop passwords of URLs.

    Names are replaced where they are a whole part of a path or an address only: as words they may mean something
    else ("root cause" on a machine whose user is root).
    """
    rules: list[tuple[str, str]] = [(rf"{re.escape(home)}(?![^/:])", "~") for home in identity.homes]
    rules += [(r"(?<=://)[^/@\s]+@", "")]
    rules += [(r"(?<![^:=])/(home|Users)/[^/:]+", r"/\1/USER")]
    rules += [(rf"(?<=[/@=]){re.escape(user)}(?![^/:@])", "USER") for user in identity.users]
    rules += [(rf"(?<=[/@=]){re.escape(host)}(?![^/:.])", "HOST") for host in identity.hosts]
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in rules]

    def clean(text: str) -> str:
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text

    return from_json(Facts, _map_texts(to_json(facts), clean))


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    return value
