"""Says what is wrong with a GPU Python environment before the job starts: from files, with proof and the way out."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envdoctor.api import examine as examine
    from envdoctor.model.finding import Finding as Finding
    from envdoctor.model.finding import Report as Report
    from envdoctor.model.finding import Severity as Severity
    from envdoctor.probes import Plan as Plan

__version__ = "0.1.0"

# Imported when they are asked for: the command line must start fast.
_HOMES = {
    "Finding": "envdoctor.model.finding",
    "Plan": "envdoctor.probes",
    "Report": "envdoctor.model.finding",
    "Severity": "envdoctor.model.finding",
    "examine": "envdoctor.api",
}

__all__ = ["Finding", "Plan", "Report", "Severity", "__version__", "examine"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    return value
