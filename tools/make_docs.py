"""Writes docs/rules/ from the docstrings of the rules: ``make docs``."""

from pathlib import Path

from envdoctor.model.rule import Rule
from envdoctor.rules import load_rules

FOLDER = Path(__file__).parents[1] / "docs" / "rules"
HEADER = "<!-- Written by `make docs` from envdoctor/rules: do not edit. -->\n\n"


def pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    rules = load_rules()
    return {"index.md": _index(rules)} | {f"{rule.code}.md": HEADER + rule.page for rule in rules}


def _index(rules: tuple[Rule[...], ...]) -> str:
    rows = [
        f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity.name.lower()} | {rule.title} |"
        for rule in rules
    ]
    return "\n".join([HEADER + "# Rules", "", "| code | name | severity | |", "|---|---|---|---|", *rows, ""])


def main() -> None:
    """Write the pages, and remove those of rules that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in written:
            file.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
