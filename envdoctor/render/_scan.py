"""What `envdoctor scan` prints: a block per file, a table of cards, and the same as JSON (``scan.schema.json``)."""

import json
import posixpath
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envdoctor import __version__
from envdoctor.model.arch import Arch, CodeKind
from envdoctor.model.device_code import ContainerGroup, KernelCode
from envdoctor.model.versions import PtxIsaVersion
from envdoctor.probes.scan import Scan, ScannedFile
from envdoctor.render import printable

if TYPE_CHECKING:  # without cards, nothing is asked of the knowledge base
    from envdoctor.kb import Coverage
    from envdoctor.kb.gpu_names import GpuModel

# Grows when a field changes its meaning or goes; new fields leave it as it is.
SCHEMA = 1

_LABEL_WIDTH = 12
_TABLE_HEAD = "native/JIT/none"
_NARROWEST_PATH = 30
_RUNS_NOT = "does not run"


def render_text(scan: Scan, width: int) -> str:
    """Write a scan for people, in lines of at most *width* but for long paths."""
    folder = _common_folder([file.path for file in scan.files if file.is_telling])
    lines = [f"in {folder}", ""] if folder else []
    names = {file.path: file.path.removeprefix(f"{folder}/") if folder else file.path for file in scan.files}
    for file in scan.files:
        if file.is_telling:
            lines += [names[file.path], *_block(file, width), ""]
    lines += _tables(scan, names, width)
    if not scan.deep and any(_verdict(coverage) == _RUNS_NOT for file in scan.files for coverage in file.coverage):
        lines += ["some libraries keep code in their data too: --deep looks there", ""]
    lines += (f"error: {file.path}: {file.unreadable}" for file in scan.unreadable)
    lines.append(_summary(scan))
    return "".join(f"{printable(line)}\n" for line in lines)


def _summary(scan: Scan) -> str:
    with_code = sum(bool(file.image.containers) for file in scan.files)
    files = "1 file" if len(scan.files) == 1 else f"{len(scan.files)} files"
    failed = f", {len(scan.unreadable)} could not be read" if scan.unreadable else ""
    return f"{files} read, {with_code} with CUDA device code{failed}"


def _common_folder(paths: list[str]) -> str:
    """The folder below which all files lie, if there are several; it need not be said again for each."""
    if len(paths) < 2 or len({path.startswith("/") for path in paths}) > 1:  # noqa: PLR2004  several
        return ""
    return posixpath.commonpath([posixpath.dirname(path) for path in paths])


# --- a block per file --------------------------------------------------------------------------------------------


def _block(file: ScannedFile, width: int) -> Iterator[str]:
    containers = file.image.containers
    yield from _labelled("containers", _count_sections(containers, bare=False), width)
    yield from _labelled("bare cubins", _count_sections(containers, bare=True), width)
    yield from _labelled("SASS", _count_archs(containers, CodeKind.SASS), width)
    yield from _labelled("stubs", _count_stubs(containers), width)
    yield from _labelled("PTX", _count_archs(containers, CodeKind.PTX), width)
    yield from _labelled("LTO IR", _count_archs(containers, CodeKind.LTO_IR), width)
    if file.image.has_hip_code:
        yield "  HIP code for AMD GPUs"
    if not (containers or file.image.has_hip_code or file.unreadable):
        yield "  no device code"


def _labelled(label: str, words: list[str], width: int) -> Iterator[str]:
    first = f"  {label:<{_LABEL_WIDTH}}"
    # A count and what is said of it in brackets stay together.
    text = " ".join(word.replace(" ", "\N{NO-BREAK SPACE}") for word in words)
    for line in textwrap.wrap(text, width, initial_indent=first, subsequent_indent=" " * len(first)):
        yield line.replace("\N{NO-BREAK SPACE}", " ")


def _count_sections(containers: tuple[ContainerGroup, ...], *, bare: bool) -> list[str]:
    counts: Counter[str] = Counter()
    for group in containers:
        if group.bare is bare:
            counts[f"{group.section} (to be linked)" if group.relocatable else group.section] += group.count
    return [f"{section}:{count}" if section else f"{count}" for section, count in counts.items()]


def _count_archs(containers: tuple[ContainerGroup, ...], kind: CodeKind) -> list[str]:
    counts: Counter[tuple[Arch, PtxIsaVersion | None]] = Counter()
    for group, code in _all_code(containers):
        if code.arch.kind is kind:
            counts[code.arch, code.ptx_isa_version] += group.count
    in_order = sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or (0, 0)))
    return [f"{arch}:{count}" + (f" (ISA {isa})" if isa else "") for (arch, isa), count in in_order]


def _count_stubs(containers: tuple[ContainerGroup, ...]) -> list[str]:
    counts: Counter[Arch] = Counter()
    for group, code in _all_code(containers):
        if code.is_stub:
            counts[code.arch] += group.count
    return [f"{arch}:{count}" for arch, count in sorted(counts.items())]


def _all_code(containers: tuple[ContainerGroup, ...]) -> Iterator[tuple[ContainerGroup, KernelCode]]:
    return ((group, code) for group in containers for code in group.code)


# --- how it fares on cards ---------------------------------------------------------------------------------------


def _tables(scan: Scan, names: dict[str, str], width: int) -> Iterator[str]:
    """Yield a column per card; as many cards side by side as there is room for."""
    heads = [f"{card.name.removeprefix('NVIDIA ')} ({card.compute_capability})" for card in scan.cards]
    rows = [
        (names[file.path], [_cell(coverage) for coverage in file.coverage])
        for file in scan.files
        if file.image.containers
    ]
    first = 0
    while first < len(heads) and rows:
        column_width = 2 + max(
            len(cell) for cells in (heads[first:], *(cells[first:] for _, cells in rows)) for cell in cells
        )
        last = first + max(1, (width - _NARROWEST_PATH) // column_width)
        path_width = width - column_width * len(heads[first:last])
        yield _row(_TABLE_HEAD, heads[first:last], path_width, column_width)
        for path, cells in rows:
            if len(path) >= path_width:
                yield path
            yield _row(path if len(path) < path_width else "", cells[first:last], path_width, column_width)
        yield ""
        first = last


def _row(path: str, cells: list[str], path_width: int, column_width: int) -> str:
    return (f"{path:<{path_width}}" + "".join(f"{cell:<{column_width}}" for cell in cells)).rstrip()


def _cell(coverage: "Coverage") -> str:
    if not (coverage.native or coverage.jit or coverage.none):
        return "-"
    return f"{coverage.native}/{coverage.jit}/{coverage.none} {_verdict(coverage)}"


def _verdict(coverage: "Coverage") -> str:
    """Say in a word how the kernels of one file fare."""
    if not (coverage.native or coverage.jit or coverage.none):
        return "no kernels"
    if coverage.none:
        return "in part" if coverage.native or coverage.jit else _RUNS_NOT
    if not coverage.jit:
        return "runs"
    return "runs, partly by JIT" if coverage.native else "runs by JIT"


# --- JSON --------------------------------------------------------------------------------------------------------


def render_json(scan: Scan) -> str:
    """Write a scan as one JSON document."""
    document = {
        "schema": SCHEMA,
        "envdoctor": __version__,
        "cards": [{"name": card.name, "compute_capability": str(card.compute_capability)} for card in scan.cards],
        "files": [_file(file, scan.cards) for file in scan.files if file.is_telling],
        "counts": {
            "read": len(scan.files),
            "with_device_code": sum(bool(file.image.containers) for file in scan.files),
            "unreadable": len(scan.unreadable),
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _file(file: ScannedFile, cards: "tuple[GpuModel, ...]") -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "containers": [_group(group) for group in file.image.containers],
        "has_hip_code": file.image.has_hip_code,
        "needed": list(file.image.needed),
        "unreadable": file.unreadable,
        "coverage": [
            {
                "card": card.name,
                "native": coverage.native,
                "jit": coverage.jit,
                "none": coverage.none,
                "verdict": _verdict(coverage),
            }
            for card, coverage in zip(cards, file.coverage, strict=True)
        ],
    }


def _group(group: ContainerGroup) -> dict[str, Any]:
    return {
        "section": group.section,
        "relocatable": group.relocatable,
        "bare": group.bare,
        "count": group.count,
        "code": [
            {
                "arch": str(code.arch),
                "ptx_isa_version": str(code.ptx_isa_version) if code.ptx_isa_version else None,
                "is_stub": code.is_stub,
            }
            for code in group.code
        ],
    }
