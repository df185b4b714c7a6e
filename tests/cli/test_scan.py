"""`envdoctor scan` on real files, folders, wheels and what is none of them."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

import envdoctor
from envdoctor.cli import cli
from envdoctor.errors import UnknownGpuError
from tests.binary.files import FIXTURES, content_of, static_library, windows_library

SCHEMA = json.loads((Path(envdoctor.__file__).parent / "render" / "scan.schema.json").read_text())
LIBRARY = FIXTURES / "rdc" / "libnordc.so"


def scan(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, ["scan", *map(str, args)], standalone_mode=False)


def document(*args: str | Path) -> Any:
    parsed = json.loads(scan("--format", "json", *args).stdout)
    jsonschema.validate(parsed, SCHEMA)
    return parsed


def paths(*args: str | Path) -> list[str]:
    return [Path(file["path"]).name for file in document(*args)["files"]]


def test_a_library_is_shown_with_its_containers_and_architectures() -> None:
    result = scan(LIBRARY)

    assert result.return_value == 0
    assert result.stdout == (
        f"{LIBRARY}\n"
        "  containers  .nv_fatbin:2\n"
        "  SASS        sm_80:2\n"
        "  stubs       sm_80:1\n"
        "  PTX         compute_90:1 (ISA 9.0)\n"
        "\n"
        "1 file read, 1 with CUDA device code\n"
    )


@pytest.mark.parametrize(
    ("gpu", "counts", "verdict"),
    [
        ("4090", [1, 0, 0], "runs"),
        ("a6000", [1, 0, 0], "runs"),
        ("h100", [0, 1, 0], "runs by JIT"),
        ("v100", [0, 0, 1], "does not run"),
    ],
)
def test_each_card_gets_its_counts_and_a_verdict(gpu: str, counts: list[int], verdict: str) -> None:
    [file] = document(LIBRARY, "--gpu", gpu)["files"]
    [coverage] = file["coverage"]

    assert [coverage["native"], coverage["jit"], coverage["none"]] == counts
    assert coverage["verdict"] == verdict
    text = scan(LIBRARY, "--gpu", gpu).stdout
    assert f"{counts[0]}/{counts[1]}/{counts[2]} {verdict}\n" in text
    assert ("--deep" in text) is (verdict == "does not run")
    assert "--deep" not in scan(LIBRARY, "--gpu", gpu, "--deep").stdout


def test_a_container_for_each_architecture_runs_in_part(tmp_path: Path) -> None:
    (tmp_path / "x.fatbin").write_bytes(content_of("m_80.fatbin") + content_of("m_90a.fatbin"))

    assert document(tmp_path, "--gpu", "v100", "--gpu", "4090")["files"][0]["coverage"] == [
        {"card": "NVIDIA V100", "native": 0, "jit": 0, "none": 2, "verdict": "does not run"},
        {"card": "NVIDIA GeForce RTX 4090", "native": 1, "jit": 0, "none": 1, "verdict": "in part"},
    ]


def test_code_that_is_still_to_be_linked_runs_on_no_card_yet() -> None:
    assert document(FIXTURES / "rdc" / "a.o", "--gpu", "4090")["files"][0]["coverage"][0]["verdict"] == "no kernels"


@pytest.mark.parametrize("cards", [1, 2, 3, 5])
def test_lines_stay_within_80_columns_apart_from_paths(cards: int) -> None:
    gpus = ["a100", "a6000", "h100", "b200", "v100"][:cards]
    lines = scan(FIXTURES / "t1.so", FIXTURES / "rdc", *(f"--gpu={gpu}" for gpu in gpus)).stdout.splitlines()

    assert [line for line in lines if len(line) > 80 and not line.startswith("in ")] == []
    assert sum(line.count(")") for line in lines if line.startswith("native/JIT/none")) == cards


def test_the_folder_of_several_files_is_said_once() -> None:
    lines = scan(FIXTURES / "rdc", "--gpu", "4090").stdout.splitlines()

    assert lines[0] == f"in {FIXTURES / 'rdc'}"
    assert [line for line in lines[1:] if str(FIXTURES) in line] == []


def test_a_folder_is_searched_for_every_kind_of_compiled_file(tmp_path: Path) -> None:
    for name in ("a.so", "sub/b.so.1.2", "sub/c.fatbin", "d.cubin", "e.o"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content_of("m_80.fatbin"))
    (tmp_path / "f.a").write_bytes(static_library(("a.o", content_of("rdc/a.o"))))
    (tmp_path / "notes.txt").write_text("no library")
    (tmp_path / "sub" / "link.so").symlink_to("b.so.1.2")

    assert sorted(paths(tmp_path)) == ["a.so", "b.so.1.2", "c.fatbin", "d.cubin", "e.o", "f.a"]


def test_files_without_device_code_are_shown_only_when_named(tmp_path: Path) -> None:
    library = tmp_path / "x.so"
    library.write_bytes(LIBRARY.read_bytes().replace(b".nv_fatbin", b".no_fatbin"))

    assert document(tmp_path)["files"] == []
    assert document(tmp_path)["counts"]["read"] == 1
    assert "  no device code\n" in scan(library).stdout


def wheel(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in names:
            opened.writestr(name, LIBRARY.read_bytes())
    return path


def test_members_of_a_wheel_are_named_as_if_it_were_a_folder(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x-1.0-cp310-cp310-linux_x86_64.whl", "x/_C.so", "x/notes.txt", "x.libs/libx.so.1")

    [first, second] = document(path)["files"]

    assert first["path"] == f"{path}/x/_C.so"
    assert first["containers"] == document(LIBRARY)["files"][0]["containers"]
    assert second["path"] == f"{path}/x.libs/libx.so.1"


def test_code_for_amd_gpus_is_told_from_none(tmp_path: Path) -> None:
    (tmp_path / "x.dll").write_bytes(windows_library({".hip_fat": bytes(100)}))

    assert "  HIP code for AMD GPUs\n" in scan(tmp_path).stdout
    assert document(tmp_path)["files"][0]["has_hip_code"]


def test_a_long_path_has_a_line_of_its_own_in_the_table(tmp_path: Path) -> None:
    name = f"{'long' * 20}.so"
    (tmp_path / name).write_bytes(LIBRARY.read_bytes())

    assert f"\n{tmp_path / name}\n{' ' * 20}" in scan(tmp_path, "--gpu", "4090").stdout


def test_wheels_in_a_folder_are_read(tmp_path: Path) -> None:
    wheel(tmp_path / "x.whl", "x/_C.so")

    assert paths(tmp_path) == ["_C.so"]


def test_what_cannot_be_read_is_a_line_of_its_own_and_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(LIBRARY.read_bytes())
    (tmp_path / "b.so").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")

    result = scan(tmp_path)

    assert result.return_value == 3
    assert f"error: {tmp_path}/b.so: a Git LFS pointer: the library itself was not downloaded" in result.stdout
    assert "2 files read, 1 with CUDA device code, 1 could not be read" in result.stdout


@pytest.mark.parametrize("content", [b"", b"no zip file", b"PK\x03\x04" + bytes(200)])
def test_a_wheel_that_is_none_is_an_error_of_that_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(content)

    [file] = document(tmp_path)["files"]

    assert file["unreadable"].startswith("not a wheel that can be read")


def test_a_damaged_member_leaves_the_others_standing(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", "x/a.so", "x/b.so")
    content = bytearray(path.read_bytes())
    content[60:90] = b"\xff" * 30
    path.write_bytes(content)

    [first, second] = document(path)["files"]

    assert "the member is damaged" in first["unreadable"]
    assert second["unreadable"] == ""
    assert len(second["containers"]) == 2


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(unprivileged: Path) -> None:
    for name in ("locked", "open/locked"):
        (unprivileged / name).mkdir(parents=True)
        (unprivileged / name).chmod(0)
    (unprivileged / "open" / "a.so").write_bytes(LIBRARY.read_bytes())

    nothing, half = scan(unprivileged / "locked"), scan(unprivileged / "open")

    assert (nothing.return_value, half.return_value) == (3, 3)
    assert f"error: {unprivileged}/locked: Permission denied" in nothing.stdout
    assert "2 files read, 1 with CUDA device code, 1 could not be read" in half.stdout


def test_a_name_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "\x1b[31m\n.so").write_bytes(LIBRARY.read_bytes())

    assert scan(tmp_path, "--gpu", "4090").stdout.count(r"\x1b[31m\n.so") == 2


def test_a_pipe_in_the_place_of_a_wheel_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.whl")

    assert scan(tmp_path / "x.whl").return_value == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [(["/nowhere.so"], "does not exist"), ([], "Missing argument 'PATH...'"), (["--gpu", "4090"], "PATH")],
)
def test_wrong_usage_is_refused(args: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["scan", *args])

    assert result.exit_code == 2
    assert message in result.output


def test_an_unknown_card_is_refused_with_the_nearest() -> None:
    assert isinstance(scan(LIBRARY, "--gpu", "4091").exception, UnknownGpuError)


def test_code_in_data_sections_is_shown_with_deep(tmp_path: Path) -> None:
    content = LIBRARY.read_bytes().replace(b".nv_fatbin", b".rodata_ml")
    (tmp_path / "x.so").write_bytes(content)

    assert document(tmp_path)["files"] == []
    assert [group["section"] for group in document(tmp_path, "--deep")["files"][0]["containers"]] == [".rodata_ml"] * 2


def test_the_report_goes_to_a_file(tmp_path: Path) -> None:
    result = scan(LIBRARY, "--output", tmp_path / "scan.txt")

    assert result.stdout == ""
    assert "sm_80:2" in (tmp_path / "scan.txt").read_text()


def test_without_cards_the_knowledge_base_is_not_loaded() -> None:
    program = "import sys; from envdoctor.cli import main; main(sys.argv[1:]); print('envdoctor.kb' in sys.modules)"
    command = [sys.executable, "-c", program, "scan", str(LIBRARY)]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith("False\n")
