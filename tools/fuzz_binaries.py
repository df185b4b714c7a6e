"""Damage real files at random and read them: every outcome must be a value or a `BinaryError`, in bounded time.

    python -m tools.fuzz_binaries [--files 20000] [--seed 1] [--seconds-per-file 1.0]

Seed and number decide a file, so that a failure can be had again with ``--first NUMBER --files 1``.
"""

import argparse
import random
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from envdoctor.binary.elf import parse_elf
from envdoctor.binary.image import read_image
from envdoctor.binary.reader import BinaryError, BytesReader, Reader
from envdoctor.binary.wheel import find_members
from tests.binary.files import SMALL_FILES, content_of, static_library, windows_library

# Numbers at which counts and sizes overflow, wrap or lie.
_EXTREMES = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 63, (1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What reading one damaged file came to."""

    number: int
    error: str  # "" when it could be read
    crash: str  # the traceback of anything but a `BinaryError`
    seconds: float


def originals(folder: Path) -> tuple[bytes, ...]:
    """Return undamaged files of every format that is read."""
    fatbin, cubin, library = (content_of(name) for name in ("m_80.fatbin", "old/cu121_sm_90a.cubin", "rdc/librdc.so"))
    windows = windows_library({".nv_fatb": fatbin + bytes(8) + fatbin, ".rdata": bytes(40) + cubin}, ("cudart.dll",))
    static = static_library(("a.o", content_of("rdc/a.o")), ("a_rather_long_name.o", content_of("rdc/b.o")))
    wheel = folder / "original.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("lib.so", library)
        opened.writestr("plain.so", content_of("rdc/libnordc.so"), zipfile.ZIP_STORED)
    return (*map(content_of, SMALL_FILES), windows, static, wheel.read_bytes())


def damage(content: bytes, source: random.Random) -> bytes:
    """Change *content* in one to eight places: bits, numbers, ranges filled, left out or repeated, the end cut."""
    damaged = bytearray(content)
    for _ in range(source.randint(1, 8)):
        if damaged:
            source.choice(_CHANGES)(damaged, source)
    return bytes(damaged)


def _place(damaged: bytearray, source: random.Random) -> int:
    # Headers and tables stand at both ends: damage them more often than payloads.
    end = source.choice((64, 512, len(damaged), len(damaged)))
    place = source.randrange(min(end, len(damaged)))
    return source.choice((place, len(damaged) - 1 - place))


def _flip_bit(damaged: bytearray, source: random.Random) -> None:
    damaged[_place(damaged, source)] ^= 1 << source.randrange(8)


def _set_number(damaged: bytearray, source: random.Random) -> None:
    place, size = _place(damaged, source), source.choice((1, 2, 4, 8))
    number = source.choice(_EXTREMES) & ((1 << 8 * size) - 1)
    damaged[place : place + size] = number.to_bytes(size, "little")


def _fill(damaged: bytearray, source: random.Random) -> None:
    place, size = _place(damaged, source), source.randrange(1, 200)
    damaged[place : place + size] = source.choice((bytes(size), source.randbytes(size)))


def _leave_out(damaged: bytearray, source: random.Random) -> None:
    place = _place(damaged, source)
    del damaged[place : place + source.randrange(1, 100)]


def _repeat(damaged: bytearray, source: random.Random) -> None:
    place, size = _place(damaged, source), source.randrange(1, 2000)
    target = _place(damaged, source)
    damaged[target:target] = damaged[place : place + size]


def _cut(damaged: bytearray, source: random.Random) -> None:
    del damaged[_place(damaged, source) :]


_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip_bit,
    _set_number,
    _set_number,
    _fill,
    _leave_out,
    _repeat,
    _cut,
)


def read_everything(content: bytes, scratch: Path) -> None:
    """Ask everything that can be asked of a file.

    Raises:
        BinaryError: it is damaged.

    """
    if content[:2] == b"PK":
        scratch.write_bytes(content)
        with scratch.open("rb") as file:
            for member in find_members(file):
                with member.open() as reader:
                    _read_reader(reader)
        return
    _read_reader(BytesReader(content))


def _read_reader(reader: Reader) -> None:
    for deep in (False, True):
        read_image(reader, deep=deep)
    if reader.peek(0, 4) == b"\x7fELF":
        elf = parse_elf(reader)
        _ = (elf.needed, elf.soname, elf.rpath, elf.runpath, elf.sections)
        elf.find_symbol("go")
        elf.find_symbol("go", ".dynsym")


def fuzz(seed: int, first: int, count: int) -> list[Outcome]:
    """Damage and read *count* files, the first of them number *first*."""
    with tempfile.TemporaryDirectory() as folder:
        files = originals(Path(folder))
        return [_try(seed, number, files, Path(folder) / "damaged.whl") for number in range(first, first + count)]


def _try(seed: int, number: int, files: tuple[bytes, ...], scratch: Path) -> Outcome:
    source = random.Random(f"{seed}/{number}")
    content = damage(source.choice(files), source)
    error = crash = ""
    start = time.perf_counter()
    try:
        read_everything(content, scratch)
    except BinaryError as exc:
        error = type(exc).__name__
    except Exception:  # noqa: BLE001  whatever else is raised is what this program looks for
        crash = traceback.format_exc()
    return Outcome(number, error, crash, time.perf_counter() - start)


def main() -> int:
    """Parse the command line, fuzz, report; 1 when a file crashed the readers or took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds-per-file", type=float, default=1.0)
    arguments = parser.parse_args()

    outcomes = fuzz(arguments.seed, arguments.first, arguments.files)
    faults = [outcome for outcome in outcomes if outcome.crash or outcome.seconds > arguments.seconds_per_file]
    for outcome in faults:
        print(f"file {outcome.number}: {outcome.seconds:.2f} s\n{outcome.crash}")
    errors = sum(bool(outcome.error) for outcome in outcomes)
    slowest = max(outcome.seconds for outcome in outcomes)
    print(
        f"seed {arguments.seed}, {len(outcomes)} files: {len(outcomes) - errors - len(faults)} values, "
        f"{errors} errors, {len(faults)} faults; slowest {slowest * 1e3:.0f} ms"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
