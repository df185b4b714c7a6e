"""Members of wheels: read forwards and backwards, never extracted."""

import random
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from envdoctor.binary.reader import BinaryError, BytesReader, Reader, TruncatedError
from envdoctor.binary.wheel import InflatedReader, Member, WheelError, find_members
from tests.binary.files import deflated

RANDOM = random.Random(7)
# Half of it deflates well, half does not; longer than two checkpoints lie apart.
CONTENT = b"".join(RANDOM.randbytes(1 << 16) + bytes(RANDOM.randrange(1 << 16, 1 << 18)) for _ in range(200))


def write_wheel(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
    return path


def content_of(member: Member) -> Reader:
    assert not isinstance(member.content, WheelError)
    return member.content


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_any_range_can_be_read_in_any_order(method: int, tmp_path: Path) -> None:
    write_wheel(tmp_path / "x.whl", {"first": b"1", "lib.so": CONTENT}, method)
    with (tmp_path / "x.whl").open("rb") as file:
        [_, member] = find_members(file)
        reader = content_of(member)

        for _ in range(30):
            offset, size = RANDOM.randrange(len(CONTENT)), RANDOM.choice([1, 80, 1 << 16, 3 << 20])
            assert reader.peek(offset, size) == CONTENT[offset : offset + size]


def test_memory_does_not_grow_with_the_member(tmp_path: Path) -> None:
    write_wheel(tmp_path / "x.whl", {"lib.so": bytes(200 << 20)})
    with (tmp_path / "x.whl").open("rb") as file:
        [member] = find_members(file)
        tracemalloc.start()
        found = content_of(member).find(b"\x01", 0, member.content.size if isinstance(member.content, Reader) else 0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert found == -1
    assert peak < 16 << 20


def test_a_member_shorter_than_announced_is_truncated(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "x.whl", {"lib.so": b"abc" * 100})
    content = path.read_bytes()
    # The size before compression, in the directory at the end of the file.
    path.write_bytes(content[:-200] + content[-200:].replace((300).to_bytes(4, "little"), (400).to_bytes(4, "little")))
    with path.open("rb") as file:
        [member] = find_members(file)

        with pytest.raises(TruncatedError):
            content_of(member).read(0, 400)


def test_deflated_blocks_without_content_are_passed_over() -> None:
    empty_block = bytes.fromhex("000000ffff")
    packed = empty_block * 100_000 + deflated(b"abc")

    assert InflatedReader(BytesReader(packed), 3).read(0, 3) == b"abc"


def test_folders_are_no_members(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "x.whl", {"x/": b"", "x/lib.so": b"abc"})
    with path.open("rb") as file:
        assert [member.name for member in find_members(file)] == ["x/lib.so"]


def test_an_encrypted_member_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "x.whl", {"lib.so": b"abc"})
    content = bytearray(path.read_bytes())
    content[content.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with path.open("rb") as file:
        [member] = find_members(file)

        with pytest.raises(WheelError, match="the member is encrypted"), member.open():
            pass


def test_damaged_compression_is_an_error(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "x.whl", {"lib.so": CONTENT[:100_000]})
    content = bytearray(path.read_bytes())
    content[40:60] = b"\xff" * 20
    path.write_bytes(content)
    with path.open("rb") as file:
        [member] = find_members(file)

        with pytest.raises(WheelError, match="the member is damaged"):
            content_of(member).read(0, 1000)


@pytest.mark.parametrize("content", [b"", b"no zip file", b"PK\x05\x06" + bytes(10)])
def test_what_is_no_zip_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(content)

    with path.open("rb") as file, pytest.raises(BinaryError):
        list(find_members(file))


def test_a_method_of_compression_that_is_not_known_is_the_fault_of_that_member(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("packed.so", b"abc", zipfile.ZIP_LZMA)
        wheel.writestr("lib.so", b"abc", zipfile.ZIP_STORED)
    with path.open("rb") as file:
        [packed, library] = find_members(file)

    assert isinstance(packed.content, WheelError)
    assert not isinstance(library.content, WheelError)
