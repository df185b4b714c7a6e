"""What `envdoctor why` prints: the story of a library for people, and the same as JSON (``why.schema.json``)."""

import json
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any

from envdoctor import __version__
from envdoctor.model.arch import CodeKind
from envdoctor.model.codec import to_json
from envdoctor.model.facts import DeviceCode
from envdoctor.model.finding import Outcome, Severity
from envdoctor.model.loading import LoadedLibrary, LoadFailure
from envdoctor.model.story import (
    Explanation,
    LibraryStory,
    LoadedBy,
    MissingSymbol,
    Namesake,
    NeededLibrary,
    Story,
    VersionNeed,
)
from envdoctor.render import RenderOptions, printable
from envdoctor.render._lines import BLANK, Line, wrap, write
from envdoctor.render._summary import count

# Grows when a field changes its meaning or goes; new fields leave it as it is.
SCHEMA = 1

_LABEL_WIDTH = 13
_SHOWN_NAMESAKES = 6
_NUMBERED = ("GLIBC_", "GLIBCXX_", "CXXABI_", "GCC_")  # versions that grow, of the system
_BAD, _GOOD, _QUIET = "bold red", "green", "dim"
_STYLES = {Severity.ERROR: _BAD, Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}


def render_text(explanation: Explanation, options: RenderOptions) -> str:
    """Write a story for people."""
    return write(_Page(explanation.story, explanation.outcomes, options).lines(), color=options.color)


@dataclass(frozen=True)
class _Page:
    story: Story
    outcomes: tuple[Outcome, ...]
    options: RenderOptions

    def lines(self) -> Iterator[Line]:
        """Yield everything, the file first."""
        library = self.story.library
        yield ((printable(self._short(library.path)), "bold"),)
        yield from self._identity(library)
        yield from self._verdict(library)
        yield from self._needs(library.needed)
        yield from self._brought(library.brought)
        yield from self._versions(library.versions)
        yield from self._device_code(library.device_code)
        yield from self._findings()
        yield from self._namesakes(self.story.namesakes)

    # --- what it is --------------------------------------------------------------------------------------------

    def _identity(self, library: LibraryStory) -> Iterator[Line]:
        if self.story.packages:
            label = "lies in" if library.path.startswith(f"{self.story.packages}/") else "packages in"
            yield from self._field(label, self.story.packages)
        if library.real_path != library.path and posixpath.basename(library.real_path) != self._short(library.path):
            yield from self._field("leads to", self._short(library.real_path))
        owner = f"{library.distribution} {library.distribution_version}".strip()
        yield from self._field("belongs to", owner or "no distribution that is installed here")
        if library.module:
            chain = f", always: {', '.join(library.import_chain)}" if library.import_chain else ""
            yield from self._field("imported as", f"{library.module}{chain}")
        if library.soname:
            yield from self._field("soname", library.soname)
        for label, value in (("RPATH", library.rpath), ("RUNPATH", library.runpath)):
            for number, folder in enumerate(filter(None, value.split(":"))):
                yield from self._field("" if number else label, folder)

    def _verdict(self, library: LibraryStory) -> Iterator[Line]:
        when = "after `import torch`" if library.after_torch else "in a Python that has loaded nothing else"
        if library.foreign_tag:
            yield from self._field("Python", f"passes it over: its name is tagged {library.foreign_tag}", _BAD)
        if library.loaded_by is not LoadedBy.NOTHING:
            origin = f": {self._origin(library.loaded)}" if library.loaded else ""
            event = "torch is imported" if library.loaded_by is LoadedBy.TORCH else "Python starts"
            yield from self._field("loader", f"loads it when {event}{origin}", _GOOD)
        elif library.unpredicted:
            yield from self._field("loader", f"is not asked: {library.unpredicted}", _BAD)
        elif library.failure is None:
            # Which does not make it a module that fits: the functions of Python that it calls may be others.
            loads = "would load it" if library.foreign_tag else "loads it"
            yield from self._field("loader", f"{loads} {when}", "" if library.foreign_tag else _GOOD)
        else:
            yield from self._field("loader", f"refuses it {when}, and says", _BAD)
            yield from self._failure(library.failure, library.missing_symbols)

    def _failure(self, failure: LoadFailure, symbols: tuple[MissingSymbol, ...]) -> Iterator[Line]:
        yield from self._detail("", failure.words, _BAD)
        if len(failure.chain) > 1:
            yield from self._detail("on the way ", " → ".join(map(self._short, failure.chain)))
        if symbols:
            yield BLANK
            missing = len(failure.undefined)
            yield from self._heading(f"lacks {count(missing, 'symbol')} that nothing defines")
            for symbol in symbols:
                yield from self._missing_symbol(symbol)
            if missing > len(symbols):
                yield (("  ", ""), (f"and {missing - len(symbols)} more", _QUIET))
            return
        yield from self._paths("has it: ", failure.holders)
        yield from self._paths("another version: ", failure.relatives)

    def _missing_symbol(self, symbol: MissingSymbol) -> Iterator[Line]:
        yield from wrap("  ", symbol.written, self.options.width, hang=6)
        if symbol.written != symbol.name:
            yield from wrap("      ", symbol.name, self.options.width, text_style=_QUIET)
        for holder in symbol.holders:
            yield from wrap("      has it: ", self._short(holder), self.options.width, style=_QUIET)

    # --- what it needs -----------------------------------------------------------------------------------------

    def _needs(self, needed: tuple[NeededLibrary, ...]) -> Iterator[Line]:
        if not needed:
            return
        yield BLANK
        yield from self._heading("needs")
        for each in needed:
            found = self._short(each.taken.path) if each.taken else "not found"
            yield (f"  {printable(each.name)}", "bold"), ("  ", ""), (printable(found), "" if each.taken else _BAD)
            if each.taken:
                before = "there already, " if each.is_already_loaded else ""
                yield from wrap("      ", before + self._origin(each.taken), self.options.width, text_style=_QUIET)
            yield from self._paths("not taken: " if each.taken else "lies where nobody looks: ", each.others)

    def _brought(self, brought: tuple[LoadedLibrary, ...]) -> Iterator[Line]:
        if not brought:
            return
        yield BLANK
        yield from self._heading(f"and through them {count(len(brought), 'more file')}")
        for each in brought:
            yield from wrap("  ", self._short(each.path), self.options.width)
            if self.options.verbose:
                yield from wrap("      ", self._origin(each), self.options.width, text_style=_QUIET)

    def _origin(self, loaded: LoadedLibrary) -> str:
        """Say why just this file."""
        folder = loaded.folder.rstrip("/") or "/"
        # Where it is the folder of the file, that has just been said.
        where = "" if folder == posixpath.dirname(loaded.path) else f": {self._short(folder)}"
        match loaded.found_through:
            case "RPATH" | "RUNPATH":
                if loaded.needed_by == self.story.library.path:
                    return f"through its {loaded.found_through}{where}"
                # RPATH is inherited: it need not be that of the file which asks.
                return f"through {loaded.found_through}, for {posixpath.basename(loaded.needed_by)}{where}"
            case "LD_LIBRARY_PATH":
                return f"through LD_LIBRARY_PATH: {self._short(folder)}"
            case "default":
                return "in a folder that is always searched"
            case "path" if not loaded.needed_by:
                return "opened by its path"
            case "program":
                return "a part of the program"
        return f"through {loaded.found_through}"

    def _versions(self, versions: tuple[VersionNeed, ...]) -> Iterator[Line]:
        shown = versions if self.options.verbose else tuple(filterfalse(_says_nothing, versions))
        if not shown:
            return
        yield BLANK
        yield from self._heading("asks for versions")
        for each in shown:
            newest = f"the newest there is {each.newest_there}" if each.newest_there else "there is none of this kind"
            if each.missing:
                text, style = f"{', '.join(each.missing)} missing: {newest}", _BAD
            else:
                text = f"{each.asked}, {newest if each.provider else 'and it is not found'}"
                style = "" if each.provider else _BAD
            yield from wrap(f"  {each.file}: ", text, self.options.width, hang=6, style="bold", text_style=style)

    # --- what is in it -----------------------------------------------------------------------------------------

    def _device_code(self, code: DeviceCode) -> Iterator[Line]:
        yield BLANK
        yield from self._heading("device code")
        archs = {entry.arch for group in code.containers for entry in group.code}
        for label, kind in (("SASS", CodeKind.SASS), ("PTX", CodeKind.PTX), ("LTO IR", CodeKind.LTO_IR)):
            if named := sorted(arch for arch in archs if arch.kind is kind):
                yield from self._field(label, " ".join(map(str, named)))
        if code.has_hip_code:
            yield from self._field("HIP", "for AMD GPUs")
        if code.unreadable:
            yield from self._field("unreadable", code.unreadable, _BAD)
        elif not archs and not code.has_hip_code:
            yield (("  none", _QUIET),)

    # --- what is said of it ------------------------------------------------------------------------------------

    def _findings(self) -> Iterator[Line]:
        for outcome in self.outcomes:
            rule = outcome.rule
            label = f"{rule.severity.name.lower()}[{rule.code}]: "
            for finding in outcome.findings:
                yield BLANK
                yield from wrap(label, finding.message, self.options.width, hang=2, style=_STYLES[rule.severity])
            yield from wrap("  more: ", f"envdoctor check, envdoctor explain {rule.code}", self.options.width)

    def _namesakes(self, namesakes: tuple[Namesake, ...]) -> Iterator[Line]:
        if not namesakes:
            return
        yield BLANK
        yield from self._heading(f"{self.story.asked} may also mean")
        shown = namesakes if self.options.verbose else namesakes[:_SHOWN_NAMESAKES]
        for each in shown:
            refused = (("  refused", _BAD),) if each.fails else ()
            yield ("  ", ""), (printable(self._short(each.path)), ""), *refused
        if len(shown) < len(namesakes):
            yield (("  ", ""), (f"and {len(namesakes) - len(shown)} more (--verbose names them)", _QUIET))

    # --- pieces ------------------------------------------------------------------------------------------------

    def _short(self, path: str) -> str:
        return path.removeprefix(f"{self.story.packages}/") if self.story.packages else path

    def _heading(self, text: str) -> Iterator[Line]:
        yield from wrap("", text, self.options.width, text_style="bold blue")

    def _field(self, label: str, text: str, style: str = "") -> Iterator[Line]:
        yield from wrap(f"  {label:<{_LABEL_WIDTH}}", text, self.options.width, style=_QUIET, text_style=style)

    def _detail(self, label: str, text: str, style: str = "") -> Iterator[Line]:
        yield from wrap(f"      {label}", text, self.options.width, hang=8, style=_QUIET, text_style=style)

    def _paths(self, label: str, paths: Iterable[str]) -> Iterator[Line]:
        for path in paths:
            yield from self._detail(label, self._short(path))


def _says_nothing(need: VersionNeed) -> bool:
    """Whether a library has but the one version that is asked for: ``libcudart.so.13``, ``Qt_5``, ``LIBAVCODEC_63``."""
    is_there = need.provider and not need.missing and need.asked == need.newest_there
    return bool(is_there) and not need.asked.startswith(_NUMBERED)


# --- JSON --------------------------------------------------------------------------------------------------------


def render_json(explanation: Explanation) -> str:
    """Write a story as one JSON document."""
    document = {
        "schema": SCHEMA,
        "envdoctor": __version__,
        **to_json(explanation.story),
        "findings": [
            _finding(outcome, to_json(finding)) for outcome in explanation.outcomes for finding in outcome.findings
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _finding(outcome: Outcome, finding: dict[str, Any]) -> dict[str, Any]:
    rule = outcome.rule
    return {"code": rule.code, "name": rule.name, "severity": rule.severity.name.lower(), **finding}
