"""Static libraries: made by the real ar, and by hand where it has no option for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from envdoctor.binary.ar import ArError, find_members
from envdoctor.binary.reader import BytesReader, open_file
from tests.binary.files import FIXTURES, static_library

LONG_NAME = "a_name_longer_than_the_header_has_room_for.o"


def test_members_of_a_real_archive_are_found_with_their_content(tmp_path: Path) -> None:
    if (archiver := shutil.which("ar")) is None:
        pytest.skip("ar is not installed")
    objects = [
        shutil.copy(FIXTURES / "rdc" / "a.o", tmp_path),
        shutil.copy(FIXTURES / "rdc" / "b.o", tmp_path / LONG_NAME),
    ]
    subprocess.run([archiver, "rcs", "lib.a", *(Path(path).name for path in objects)], cwd=tmp_path, check=True)

    with open_file(tmp_path / "lib.a") as reader:
        found = [(member.name, member.reader.read(0, member.reader.size)) for member in find_members(reader)]

    assert found == [("a.o", Path(objects[0]).read_bytes()), (LONG_NAME, Path(objects[1]).read_bytes())]


def test_names_of_bsd_archives_stand_before_the_content() -> None:
    archive = static_library(("#1/8", b"long.o\0\0content")).replace(b"#1/8/", b"#1/8 ")

    [member] = find_members(BytesReader(archive))

    assert (member.name, member.reader.read(0, member.reader.size)) == ("long.o", b"content")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"!<thin>\n", "a thin archive, whose members are files elsewhere"),
        (b"\x7fELF", "not a static library"),
        (static_library(("a.o", bytes(20)))[:-4], "an archive member of 20 bytes is cut off"),
        (static_library(("a.o", b"")).replace(b"`\n", b"xx"), "the header of an archive member is damaged"),
        (
            static_library(("a.o", b"")).replace(b"0         `", b"-1        `"),
            "the header of an archive member is damaged",
        ),
    ],
    ids=["thin", "not an archive", "cut off", "end mark", "size"],
)
def test_what_cannot_be_read_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(ArError) as caught:
        list(find_members(BytesReader(content)))

    assert caught.value.reason == reason
