"""Read the device code of real wheels and compare it with a table of what cuobjdump and others found in them.

    python -m tools.verify_wheels [WHEEL ...] [--table fixtures/wheel_archs.json] [--folder DIR]

WHEEL is the beginning of the name of a wheel in the table, or else the path of a wheel or a requirement
(`xformers==0.0.28`); with none, all wheels of the table. What is not in DIR already is downloaded there by pip, from
the indexes of its configuration, one at a time, and deleted after it was read. Wheels of the table must have the
sha256 that stands there; of others it is printed what they hold. Exit code 1 when anything differs.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from envdoctor.binary.image import Image, read_image
from envdoctor.binary.reader import BinaryError
from envdoctor.binary.wheel import Member, WheelError, find_members
from envdoctor.model.arch import CodeKind
from envdoctor.model.device_code import ContainerGroup, KernelCode

TABLE = Path(__file__).parents[1] / "fixtures" / "wheel_archs.json"

_COMPILED = re.compile(r"\.(so(\.[0-9.]+)?|pyd|dll|a|fatbin|cubin)$")
# CUPTI is linked into this library. The table lists its kernels; envdoctor does not, since no job launches them.
_PROFILER_CODE = re.compile(r"libtorch_cpu\.so$")
_NOTHING = {"containers": 0, "entries": 0, "sass": {}, "ptx": {}, "coverage": {}, "bare_cubins": 0}


# --- comparison --------------------------------------------------------------------------------------------------


def describe(image: Image) -> dict[str, Any]:
    """Say what was read in the words of the table, which counts bare cubins apart from containers."""
    groups = [group for group in image.containers if not group.bare]
    bare = [group for group in image.containers if group.bare]
    return {
        "containers": _sum(groups),
        "containers_by_section": dict(_count((group.section, group.count) for group in groups)),
        "empty_containers": _sum(group for group in groups if not group.code),
        "entries": sum(group.count * len(group.code) for group in groups),
        "sass": dict(_count(_targets(groups, CodeKind.SASS, CodeKind.LTO_IR))),
        "ptx": dict(_count(_targets(groups, CodeKind.PTX))),
        "coverage": dict(_count((tuple(sorted(map(_target, group.code))), group.count) for group in groups)),
        "bare_cubins": _sum(bare),
        "bare_cubin_archs": dict(_count((_without_suffix(*_bare_place(group)), group.count) for group in bare)),
    }


def expect(row: dict[str, Any]) -> dict[str, Any]:
    """Prepare a library's row of the table for comparison."""
    if _PROFILER_CODE.search(row["path"]):
        return _NOTHING
    expected = {key: row[key] for key in (*_NOTHING, "bare_cubin_archs")}
    expected |= {key: row[key] for key in ("containers_by_section", "empty_containers") if key in row}
    expected["coverage"] = {tuple(targets): count for targets, count in row["coverage"]}
    bare = ((_without_suffix(*place.split()), count) for place, count in row["bare_cubin_archs"].items())
    return expected | {"bare_cubin_archs": dict(_count(bare))}


def compare(row: dict[str, Any], image: Image) -> Iterator[str]:
    """Say in what a library differs from its row of the table."""
    found = describe(image)
    for key, expected in expect(row).items():
        if found[key] != expected:
            yield f"{key}: expected {expected}, found {found[key]}"
    yield from (f"damage: {error}" for error in image.damage)


def _sum(groups: Iterable[ContainerGroup]) -> int:
    return sum(group.count for group in groups)


def _count(counts: Iterable[tuple[Any, int]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for key, count in counts:
        total[key] += count
    return total


def _targets(groups: list[ContainerGroup], *kinds: CodeKind) -> Iterator[tuple[str, int]]:
    return ((_target(code), group.count) for group in groups for code in group.code if code.arch.kind in kinds)


def _target(code: KernelCode) -> str:
    # The table counts LTO IR as `sm_`.
    return str(code.arch).replace("lto_", "sm_")


def _bare_place(group: ContainerGroup) -> tuple[str, str]:
    return _target(group.code[0]), group.section


def _without_suffix(target: str, section: str) -> tuple[str, str]:
    # The table has the suffix of bare cubins from `e_flags` alone, which since CUDA 13 do not tell it.
    return target.rstrip("af"), section


# --- wheels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One wheel to verify: with its row of the table, or by what pip or the file system knows it by."""

    name: str
    row: dict[str, Any] | None = None


def choose(names: list[str], table: list[dict[str, Any]]) -> Iterator[Wheel]:
    """Find the wheels that are meant by names of the table, paths and requirements."""
    if not names:
        yield from (Wheel(name=row["wheel"], row=row) for row in table)
    for name in names:
        rows = [row for row in table if row["wheel"].startswith(Path(name).name)]
        yield from (Wheel(name=row["wheel"], row=row) for row in rows) if rows else [Wheel(name=name)]


def fetch(name: str, folder: Path) -> Path:
    """Let pip download a wheel, or whatever answers to a requirement, without what it needs.

    Raises:
        subprocess.CalledProcessError: pip found none.

    """
    requirement, options = _pip_arguments(name) if name.endswith(".whl") else (name, [])
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *options]
    subprocess.run([*command, "--dest", str(folder), requirement], check=True, stderr=subprocess.PIPE, text=True)
    [path] = set(folder.iterdir()) - before
    return path


def _pip_arguments(name: str) -> tuple[str, list[str]]:
    """Say to pip which wheel is meant: tags of the file name (PEP 425), for Python 3.11 where any will do."""
    project, version, *_, python, abi, platforms = name.removesuffix(".whl").split("-")
    pythons = re.fullmatch(r"cp(\d)(\d+)", python) if abi.startswith("cp") else None
    options = [f"--python-version={pythons[1]}.{pythons[2]}" if pythons else "--python-version=3.11", f"--abi={abi}"]
    if abi != "none":
        options.append("--implementation=cp")
    options += (f"--platform={platform}" for platform in platforms.split("."))
    return f"{project}=={version}", options


def verify(wheel: Wheel, folder: Path) -> list[str]:
    """Fetch, read, compare and delete one wheel; return what differs."""
    path = next((place for place in (Path(wheel.name), folder / wheel.name) if place.is_file()), None)
    if path is not None:
        return _verify_file(wheel, path)
    if wheel.row is None and wheel.name.endswith(".whl"):
        return [f"{wheel.name}: there is no such file, and no such wheel in the table"]
    try:
        path = fetch(wheel.name, folder)
    except subprocess.CalledProcessError as error:
        return [f"pip: {error.stderr.strip().splitlines()[-1]}"]
    try:
        return _verify_file(wheel, path)
    finally:
        path.unlink()


def _verify_file(wheel: Wheel, path: Path) -> list[str]:
    start = time.perf_counter()
    images, faults = _read(path)
    seconds = time.perf_counter() - start
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {len(images)} files read in {seconds:.1f} s", flush=True)
    if wheel.row is None:
        _print_images(images)
        return faults
    if (digest := _sha256(path)) != wheel.row["sha256"]:
        return [f"sha256: expected {wheel.row['sha256']}, found {digest}"]
    rows = {row["path"]: row for row in wheel.row["libraries"]}
    for name, row in rows.items():
        faults += (f"{name}: {fault}" for fault in compare(row, images.get(name, Image())))
    return faults + _find_unlisted(images, rows)


def _find_unlisted(images: dict[str, Image], rows: dict[str, Any]) -> list[str]:
    """Name libraries with device code that the table does not have; it lists equal copies of a library once."""
    listed = [describe(images[name]) for name in rows if name in images]
    with_code = (name for name, image in images.items() if name not in rows and image.containers)
    return [f"{name}: not in the table" for name in with_code if describe(images[name]) not in listed]


def _read(path: Path) -> tuple[dict[str, Image], list[str]]:
    images: dict[str, Image] = {}
    faults = []
    with path.open("rb") as file:
        for name, answer in _read_members(file):
            if isinstance(answer, Image):
                images[name] = answer
            else:
                faults.append(f"{name}: {answer}")
    return images, faults


def _read_members(file: BinaryIO) -> Iterator[tuple[str, Image | BinaryError]]:
    try:
        for member in find_members(file):
            if _COMPILED.search(member.name):
                yield member.name, _read_member(member)
    except WheelError as error:
        yield "the wheel", error


def _read_member(member: Member) -> Image | BinaryError:
    try:
        with member.open() as reader:
            return read_image(reader, deep=True)
    except BinaryError as error:
        return error


def _print_images(images: dict[str, Image]) -> None:
    for name, image in images.items():
        if image.containers:
            found = describe(image)
            print(f"  {name}: {found['containers']} containers, {found['sass']} {found['ptx']}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def main() -> int:
    """Parse the command line, verify one wheel after another, report; 1 when any differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", metavar="WHEEL")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()

    table = json.loads(arguments.table.read_text("utf-8"))["wheels"]
    counts: Counter[bool] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for wheel in choose(arguments.wheels, table):
            faults = verify(wheel, arguments.folder or Path(scratch))
            for fault in faults:
                print(f"  {fault}", flush=True)
            counts[not faults] += 1
    print(f"{counts[True]} wheels as expected, {counts[False]} not")
    return 1 if counts[False] else 0


if __name__ == "__main__":
    sys.exit(main())
