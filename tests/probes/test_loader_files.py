"""Files as the emulated loader sees them: many, of all kinds, and changed while they are read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.binary.reader import BinaryError
from envdoctor.probes.loader_files import LoaderFiles


def test_more_files_are_read_than_a_process_may_have_open(tmp_path: Path) -> None:
    files = LoaderFiles()
    readers = []
    for number in range(300):
        path = tmp_path / str(number)
        path.write_text(str(number))
        readers.append(files.open(str(path)).reader)

    assert len(list(Path("/proc/self/fd").iterdir())) < 280
    assert [reader.peek(0, 10) for reader in readers] == [str(number).encode() for number in range(300)]


SCRIPT = """
import resource, sys
from pathlib import Path
from envdoctor.errors import ProbeError
from envdoctor.probes.loader_files import LoaderFiles

paths = [str(path) for path in sorted(Path(sys.argv[1]).iterdir())]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), 1000))
try:
    files = LoaderFiles()
    print(len([files.open(path) for path in paths]))
except ProbeError as error:
    print(error)
"""


@pytest.mark.parametrize(("allowed", "said"), [(12, "20\n"), (3, "/0` cannot be opened here: Too many open files\n")])
def test_files_that_we_may_not_open_are_not_missing_ones(allowed: int, said: str, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(allowed)]

    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert answer.stdout.endswith(said)


def test_two_paths_to_a_file_share_its_identity(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    files = LoaderFiles()

    file, link = (files.open(str(tmp_path / name)) for name in ("file", "link"))

    assert file.identity == link.identity
    assert link.reader.peek(3, 100) == b"tent"
    assert link.reader.peek(-1, 3) == link.reader.peek(100, 3) == link.reader.peek(0, 0) == b""


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_is_gone_or_another_one_is_said(is_replaced: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    files = LoaderFiles()
    reader = files.open(str(path)).reader
    files.close()
    path.rename(tmp_path / "old")
    if is_replaced:
        path.write_bytes(b"another")

    with pytest.raises(BinaryError, match="was replaced" if is_replaced else "cannot be read"):
        reader.peek(0, 4)


def test_nothing_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(BinaryError, match="not a regular file"):
        LoaderFiles().open(str(tmp_path / "pipe"))


def test_a_folder_is_opened_and_cannot_be_read(tmp_path: Path) -> None:
    file = LoaderFiles().open(str(tmp_path))

    assert os.strerror(file.error_number) == "Is a directory"
    assert file.reader.peek(0, 10) == b""
