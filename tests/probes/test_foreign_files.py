"""What lies in foreign folders, whatever it is, is read or refused at once."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.probes.foreign_files import as_file_name, find_files, is_locked, read_file, read_head, read_text


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


def _make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def _make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _make_nothing(path: Path) -> None:
    del path


OBSTACLES = (_make_folder, _make_pipe, _make_loop, _make_endless, _make_socket, _make_nothing)


@pytest.mark.parametrize("make", OBSTACLES)
@pytest.mark.parametrize("read", [read_file, read_text, lambda path: read_head(path, 16)])
def test_what_is_no_file_is_refused(
    make: Callable[[Path], None], read: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / "x")

    with pytest.raises(OSError, match="x"):
        read(tmp_path / "x")


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")

    assert read_file(tmp_path / "x", largest=5) == b"12345"
    assert read_head(tmp_path / "x", 2) == b"12"
    with pytest.raises(OSError, match="File too large"):
        read_file(tmp_path / "x", largest=4)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(OSError, match="File too large"):
        read_file(tmp_path / "x")


def test_files_without_a_size_are_read() -> None:
    assert b"python" in read_file("/proc/self/cmdline")


@pytest.mark.parametrize(
    ("content", "text"), [(b"a\0b", "a?b"), (b"\xff", "\udcff"), ("é".encode(), "é"), (b"a\r\nb", "a\r\nb")]
)
def test_a_text_names_nothing_that_no_file_can_be_called(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)

    assert read_text(tmp_path / "x") == text


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "plain", "日本"])
def test_the_system_can_be_asked_about_every_file_name(text: str) -> None:
    with pytest.raises(FileNotFoundError):
        Path("/nowhere", as_file_name(text)).stat()


def test_files_are_found_in_order_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b.so", "a.so", ".c.so", "a.txt"):
        (tmp_path / name).touch()

    assert [path.name for path in find_files(tmp_path, "*.so")] == ["a.so", "b.so"]


@pytest.mark.parametrize("pattern", ["*", "nvidia/*/lib"])
def test_nothing_is_found_where_nothing_can_be_listed(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for place in ("loop", "nowhere", "n" * 300):
        assert find_files(tmp_path / place, pattern) == []


def test_a_folder_is_locked_that_cannot_be_listed_or_entered(unprivileged: Path) -> None:
    for name, mode in (("open", 0o755), ("blind", 0o311), ("barred", 0o644)):
        (unprivileged / name).mkdir()
        (unprivileged / name / "file").touch()
        (unprivileged / name).chmod(mode)
    (unprivileged / "secret").touch(mode=0)

    locked = [
        path
        for path in ("open", "open/file", "blind", "barred", "barred/file", "secret", "gone", "secret/file")
        if is_locked(unprivileged / path)
    ]

    assert locked == ["blind", "barred", "barred/file", "secret"]


def test_nothing_is_found_in_a_locked_folder(unprivileged: Path) -> None:
    (unprivileged / "locked").mkdir()
    (unprivileged / "locked" / "x.so").touch()
    (unprivileged / "locked").chmod(0)

    assert find_files(unprivileged / "locked", "*.so") == []
    with pytest.raises(PermissionError):
        read_file(unprivileged / "locked" / "x.so")
