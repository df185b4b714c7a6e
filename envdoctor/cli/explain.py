"""``envdoctor explain``: what a code means, and which code an error message belongs to."""

import json

import click

from envdoctor import kb
from envdoctor.cli import options
from envdoctor.errors import ExitCode, UnknownRuleError
from envdoctor.model.rule import Rule
from envdoctor.rules import find_rules

Rules = tuple[Rule[...], ...]


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="CODE|NAME|MESSAGE")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="text for people, json for programs, markdown for issues.",
)
@options.output
@options.color
def command(*, what: tuple[str, ...], format_: str, output: str, color: str) -> int:
    """Say what a code or an error message means.

    Where several codes may be meant, they are listed. For example `envdoctor explain ED201`, `envdoctor explain ED2`,
    or `envdoctor explain "no kernel image is available"`.
    """
    rules = _find(" ".join(what))
    if format_ == "text" and options.wants_color(output, color):
        text = _paint(_markdown(rules), options.text_width(output))
    else:
        text = _json(rules) if format_ == "json" else _markdown(rules)
    options.write(text, output)
    return ExitCode.OK


def _find(what: str) -> Rules:
    try:
        return find_rules(what)
    except UnknownRuleError:
        if rules := _explaining(what):
            return rules
        if " " in what.strip():
            raise UnknownRuleError(
                "no error message that envdoctor knows is in this text: it knows those about the driver, the GPUs, the "
                "code for them, packages and libraries; `envdoctor check` looks at the environment itself"
            ) from None
        raise


def _explaining(message: str) -> Rules:
    codes = {code for symptom in kb.load().symptoms() if symptom.matches(message) for code in symptom.codes}
    return tuple(rule for code in sorted(codes) for rule in find_rules(code))


def _markdown(rules: Rules) -> str:
    if len(rules) == 1:
        return rules[0].page
    listed = "".join(f"- {rule.code} {rule.name} ({rule.severity.name.lower()}): {rule.title}\n" for rule in rules)
    check, explain = "`envdoctor check`", f"`envdoctor explain {rules[0].code}`"
    return f"{listed}\n{check} finds out which of them is the case, {explain} says more about one.\n"


def _json(rules: Rules) -> str:
    described = [
        {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity.name.lower(),
            "title": rule.title,
            "explanation": rule.explanation,
        }
        for rule in rules
    ]
    return json.dumps({"rules": described}, indent=2) + "\n"


def _paint(markdown: str, width: int) -> str:
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    page = io.StringIO()
    Console(file=page, force_terminal=True, width=width, no_color=False, color_system="standard").print(
        Markdown(markdown)
    )
    return page.getvalue()
