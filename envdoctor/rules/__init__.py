"""One module per rule, named after its code: dropping ``ed2xx_name.py`` in this folder registers it."""

import importlib
import pkgutil
from functools import cache

from envdoctor.model.rule import Rule


@cache
def load_rules() -> tuple[Rule[...], ...]:
    """Import every rule module of this package and return its rules by code."""
    modules = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
        if info.name.startswith("ed")
    ]
    rules = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    return tuple(sorted(rules, key=lambda rule: rule.code))
