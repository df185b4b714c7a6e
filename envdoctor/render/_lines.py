"""Lines of text for people, wrapped to a width, and with colour where that is wanted."""

import textwrap
from collections.abc import Iterable, Iterator

from envdoctor.render import printable

# Text and style (Rich's words) of the pieces of one line.
Line = tuple[tuple[str, str], ...]

BLANK: Line = ()


def write(lines: Iterable[Line], *, color: bool) -> str:
    """Write lines, with their styles if wanted."""
    if color:
        return _paint(lines)
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def wrap(
    label: str, text: str, width: int, *, hang: int | None = None, style: str = "", text_style: str = ""
) -> Iterator[Line]:
    """Wrap *text* after *label*; words longer than a line (paths) stay whole."""
    label = printable(label)
    lines = textwrap.wrap(
        printable(text),
        width,
        initial_indent=" " * len(label),
        subsequent_indent=" " * (len(label) if hang is None else hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    first, *others = lines or [""]
    yield (label, style), (first[len(label) :], text_style)
    for line in others:
        yield ((line, text_style),)


def _paint(lines: Iterable[Line]) -> str:
    import io

    from rich.console import Console
    from rich.text import Text

    page = io.StringIO()
    console = Console(file=page, force_terminal=True, color_system="standard", no_color=False, markup=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True, highlight=False)
    return page.getvalue()
