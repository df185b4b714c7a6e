"""One module per output format: dropping ``name.py`` in this folder registers the format `name`."""

import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from envdoctor.model.finding import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """How a report is to be written."""

    color: bool = False
    width: int = 80
    verbose: bool = False  # also outcomes that passed or were skipped, with their reasons


class Renderer(Protocol):
    """What a module of this package provides (PEP 544: modules can implement protocols)."""

    def render(self, report: "Report", options: RenderOptions) -> str:
        """Write *report* as text; never raises on a valid report."""
        ...


def formats() -> tuple[str, ...]:
    """Return the names of the formats, sorted."""
    return tuple(sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")))


def get(name: str) -> Renderer:
    """Import the renderer of one format."""
    renderer: Renderer = importlib.import_module(f"{__name__}.{name}")
    return renderer


def printable(text: str) -> str:
    """Escape what could act on a terminal or cannot be encoded: names and paths come from foreign files."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
