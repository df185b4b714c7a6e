"""One module per rule, named after its code: dropping ``ed2xx_name.py`` in this folder registers it."""

import importlib
import pkgutil
from functools import cache

from envdoctor.errors import UnknownRuleError
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


def find_rules(selector: str) -> tuple[Rule[...], ...]:
    """Return the rules that *selector* means: a code, the beginning of codes (``ED2``) or a name.

    Raises:
        UnknownRuleError: it means none; the message lists the nearest.

    """
    code, name = selector.upper(), selector.lower()
    if found := tuple(rule for rule in load_rules() if _means(rule, code=code, name=name)):
        return found
    import difflib

    codes, names = [rule.code for rule in load_rules()], [rule.name for rule in load_rules()]
    near = difflib.get_close_matches(code, codes) or difflib.get_close_matches(name, names)
    hint = f"nearest: {', '.join(near)}" if near else f"codes go from {codes[0]} to {codes[-1]}"
    raise UnknownRuleError(f"no rule is called `{selector}`; {hint}")


def _means(rule: Rule[...], *, code: str, name: str) -> bool:
    is_prefix = len(code) > len("ED") and rule.code.startswith(code)
    return is_prefix or rule.name == name
