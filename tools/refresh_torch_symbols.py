"""Read which symbols the releases of torch define out of their real wheels, and write kb/torch_symbols.toml.

    python -m tools.refresh_torch_symbols [--folder DIR] [RELEASE...]
    python -m tools.refresh_torch_symbols --asked-by WHEEL... [--built-for RELEASE]

Per release, by default the newest patch of each minor one, a wheel for Linux x86_64 is downloaded (up to 900 MB), read
and deleted; what was read stays in DIR, so that a second run goes on where the first ended. The table gets of the
symbols that fixtures/torch_symbols/asked.json lists those that tell releases apart and that two projects ask for, and
what else it takes to bound each library of the list as closely as all of its symbols do.

With `--asked-by`, what the libraries of a wheel ask of torch is added to that list.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timezone
from pathlib import Path

from envdoctor import kb as knowledge
from envdoctor.binary.elf import parse_elf
from envdoctor.binary.reader import BytesReader
from envdoctor.binary.symbols import SymbolTable
from envdoctor.errors import EnvdoctorError
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_symbols import either_abi, is_torch_symbol
from tools.refresh_kb import RefreshError, choose_wheel, run_pip

ASKED = Path(__file__).parents[1] / "fixtures" / "torch_symbols" / "asked.json"
TABLE = Path(knowledge.__file__).parent / "torch_symbols.toml"

_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$")
_TORCH_LIBRARY = re.compile(r"torch/lib/lib(c10|torch|caffe2|shm)[^/]*\.so(\.\d+)?$")
_ENOUGH_PROJECTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingLibrary:
    """One library of a wheel, and what it asks of torch."""

    wheel: str
    library: str
    built_for: str  # release of torch, "" where it is not known
    known_by: str  # how it is known
    symbols: tuple[str, ...]

    @property
    def project(self) -> str:
        """Whose library it is."""
        return self.wheel.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last of the releases that define a symbol, by their place among those that were read."""

    first: int
    last: int


# --- what extensions ask for -------------------------------------------------------------------------------------


def read_asked() -> list[AskingLibrary]:
    """Read the list of what libraries ask for."""
    document = json.loads(ASKED.read_text(encoding="utf-8"))
    names = document["names"]
    return [
        AskingLibrary(**row | {"symbols": tuple(names[number] for number in row["symbols"])})
        for row in document["libraries"]
    ]


def write_asked(libraries: Iterable[AskingLibrary]) -> None:
    """Write the list; every symbol stands in it once."""
    libraries = sorted(libraries, key=lambda row: (row.wheel, row.library))
    names = sorted({name for row in libraries for name in row.symbols})
    numbers = {name: number for number, name in enumerate(names)}
    rows = [asdict(row) | {"symbols": [numbers[name] for name in row.symbols]} for row in libraries]
    # One line per name and per library: what a new wheel adds can be read in the difference.
    lines = (",\n".join(map(json.dumps, part)) for part in (names, rows))
    ASKED.write_text('{{"names": [\n{}\n],\n"libraries": [\n{}\n]}}\n'.format(*lines), encoding="utf-8")


def read_asking_libraries(wheel: Path, built_for: str) -> Iterator[AskingLibrary]:
    """Read what the libraries of a wheel ask of torch."""
    with zipfile.ZipFile(wheel) as archive:
        pinned = _pinned_torch(archive)
        for name in archive.namelist():
            if not _LIBRARY.search(name):
                continue
            table = SymbolTable(parse_elf(BytesReader(archive.read(name))))
            symbols = sorted({reference.name.decode() for reference in table.read_references(with_weak=True)})
            if asked := tuple(filter(is_torch_symbol, symbols)):
                yield AskingLibrary(
                    wheel=wheel.name,
                    library=name,
                    built_for=built_for or pinned,
                    known_by="told" if built_for else "Requires-Dist" if pinned else "",
                    symbols=asked,
                )


def _pinned_torch(archive: zipfile.ZipFile) -> str:
    metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    pin = re.search(r"^Requires-Dist: torch \(?==([\d.]+)\)?$", archive.read(metadata).decode(), re.MULTILINE)
    return pin[1] if pin else ""


# --- what releases define ----------------------------------------------------------------------------------------


def newest_patches(kb: KnowledgeBase) -> list[str]:
    """Return the newest patch of each minor release that the default index has, oldest first."""
    found = [version for version, row in kb.torch_releases.items() if row.default_cuda]
    return list({_minor(version): version for version in found}.values())


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def read_release(kb: KnowledgeBase, version: str, folder: Path) -> frozenset[str]:
    """Return the symbols of torch's own that a release defines, from *folder* where they were read before.

    Raises:
        RefreshError: there is no wheel.

    """
    kept = folder / f"torch-{version}.txt"
    if not kept.exists():
        release = kb.torch_release(version)
        tags = [tag for tag in release.pythons if not tag.endswith("t")] if release else []
        if not tags:
            raise RefreshError(f"torch {version} is not in torch.toml")
        with tempfile.TemporaryDirectory(dir=folder) as downloads:
            done = run_pip("download", "--quiet", f"--dest={downloads}", *choose_wheel(tags[-1]), f"torch=={version}")
            if done.returncode:
                raise RefreshError(f"torch {version}: {done.stderr.strip().splitlines()[-1]}")
            [wheel] = Path(downloads).glob("*.whl")
            kept.write_text("".join(f"{name}\n" for name in sorted(read_defined(wheel))), encoding="utf-8")
    return frozenset(kept.read_text(encoding="utf-8").splitlines())


def read_defined(wheel: Path) -> set[str]:
    """Return the symbols of torch's own that the libraries of its wheel define."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if _TORCH_LIBRARY.match(name)]
        defined: set[str] = set()
        for library in libraries:
            with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
                archive.extract(library, folder)
                done = subprocess.run(
                    ["nm", "--dynamic", "--defined-only", "--format=just-symbols", str(Path(folder, library))],
                    capture_output=True,
                    text=True,
                    check=True,
                )
            defined.update(filter(is_torch_symbol, done.stdout.split()))
    return defined


def find_spans(defined: Iterable[frozenset[str]], asked: frozenset[str]) -> dict[str, Span]:
    """Find the releases that define each of some keys; without those that were gone in between."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, names in enumerate(defined):
        for key in asked & {either_abi(name) for name in names}:
            places[key].append(place)
    spans = {key: Span(found[0], found[-1]) for key, found in places.items()}
    return {key: span for key, span in spans.items() if len(places[key]) == span.last - span.first + 1}


# --- choosing and writing ----------------------------------------------------------------------------------------


def choose(libraries: Iterable[AskingLibrary], spans: Mapping[str, Span]) -> set[str]:
    """Choose the keys that two projects ask for, and for each library those that bound it most closely."""
    projects: dict[str, set[str]] = defaultdict(set)
    for row in libraries:
        for key in map(either_abi, row.symbols):
            projects[key].add(row.project)
    chosen = {key for key in spans if len(projects[key]) >= _ENOUGH_PROJECTS}
    for row in libraries:
        known = sorted(key for key in map(either_abi, row.symbols) if key in spans)
        if not known:
            continue
        first, last = max(spans[key].first for key in known), min(spans[key].last for key in known)
        if not any(spans[key].first == first for key in chosen.intersection(known)):
            chosen.add(next(key for key in known if spans[key].first == first))
        if not any(spans[key].last == last for key in chosen.intersection(known)):
            chosen.add(next(key for key in known if spans[key].last == last))
    return chosen


def write_table(releases: list[str], spans: Mapping[str, Span], names: Mapping[str, str], day: date) -> str:
    """Write the table: one row for all symbols that the same releases define."""
    groups: dict[Span, list[str]] = defaultdict(list)
    for key, span in spans.items():
        groups[span].append(names[key])
    newest = len(releases) - 1
    rows = []
    for span in sorted(groups, key=lambda span: (span.first, span.last)):
        bounds = [f'first = "{_minor(releases[span.first])}"\n'] if span.first else []
        bounds += [f'last = "{_minor(releases[span.last])}"\n'] if span.last < newest else []
        listed = "\n".join(sorted(groups[span]))
        rows.append(f'[[symbols]]\n{"".join(bounds)}names = """\n{listed}\n"""\nsource = "wheels"\nchecked = {day}\n')
    return _HEAD.format(oldest=releases[0], newest=releases[-1]) + "\n" + "\n".join(rows)


_HEAD = """\
# Which releases of torch define the symbols that compiled extensions ask for: `first` is the first minor release that
# does, `last` the last; where a bound is missing, the oldest or the newest release that was read does. Names stand in
# one ABI of std::string. Written by tools/refresh_torch_symbols.py.

[sources]
wheels = "symbols of torch/lib in Linux x86_64 wheels of the default index, newest patches, {oldest} to {newest}"
"""


def refresh(kb: KnowledgeBase, releases: list[str], folder: Path) -> None:
    """Read the releases, and write the table."""
    libraries = read_asked()
    names: dict[str, str] = {}
    for name in sorted(name for row in libraries for name in row.symbols):
        names.setdefault(either_abi(name), name)
    defined = []
    for version in releases:
        defined.append(read_release(kb, version, folder))
        print(f"torch {version}: {len(defined[-1])} symbols", flush=True)
    spans = find_spans(defined, frozenset(names))
    telling = {key: span for key, span in spans.items() if span != Span(0, len(releases) - 1)}
    chosen = choose(libraries, telling)
    today = datetime.now(tz=timezone.utc).date()
    TABLE.write_text(write_table(releases, {key: telling[key] for key in chosen}, names, today), encoding="utf-8")
    print(f"{TABLE.name}: {len(chosen)} of {len(telling)} symbols that tell releases apart")


def main() -> int:
    """Parse the command line; 2 when a wheel cannot be had or read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", metavar="RELEASE")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where readings stay")
    parser.add_argument("--asked-by", type=Path, nargs="+", default=[], metavar="WHEEL")
    parser.add_argument("--built-for", default="", metavar="RELEASE")
    arguments = parser.parse_args()

    kb = knowledge.load()
    try:
        if arguments.asked_by:
            wheels = {wheel.name for wheel in arguments.asked_by}
            found = [row for wheel in arguments.asked_by for row in read_asking_libraries(wheel, arguments.built_for)]
            write_asked([*(row for row in read_asked() if row.wheel not in wheels), *found])
        else:
            refresh(kb, arguments.releases or newest_patches(kb), arguments.folder)
    except EnvdoctorError as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
