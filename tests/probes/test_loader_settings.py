"""What is read of the dynamic loader of this machine, against what it says of itself; and made-up ones of others."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from envdoctor.binary import elf as layout
from envdoctor.errors import ProbeError
from envdoctor.probes.loader_settings import read_interpreter_file, read_search_rules
from tests.binary.loaders import PROGRAM, needs_glibc, rules_of_this_machine

BANNER = b"GNU C Library (Made Up GLIBC 2.28-1) stable release version 2.28.\n"


def ask_loader(*arguments: str, variables: Mapping[str, str] | None = None) -> str:
    _, loader = read_interpreter_file(PROGRAM)
    command = [loader, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(variables or {}))
    return done.stdout + done.stderr


def make_loader(folder: Path, content: bytes, library: bytes = BANNER) -> str:
    (folder / "libc.so.6").write_bytes(b"\x7fELF\0" + library)
    (folder / "ld-linux.so").write_bytes(b"\x7fELF\0/proc/self/exe\0" + content + b"\0LD_LIBRARY_PATH\0")
    return str(folder / "ld-linux.so")


@needs_glibc
def test_the_subfolders_for_this_processor_are_those_that_the_loader_names() -> None:
    named = re.findall(r"^  (\S+) \(supported, searched\)", ask_loader("--help"), re.MULTILINE)
    if not named:
        pytest.skip("this loader does not say in which subfolders it searches")

    found = [
        capability for capability in rules_of_this_machine().capabilities if capability.startswith("glibc-hwcaps/")
    ]

    assert found == [f"glibc-hwcaps/{name}" for name in named if name.startswith("x86-64")]


@needs_glibc
def test_the_default_folders_are_searched_in_the_order_of_the_loader() -> None:
    """It is asked for a library that is nowhere."""
    script = "import ctypes\ntry: ctypes.CDLL('libenvdoctor-nowhere.so')\nexcept OSError: pass"
    said = ask_loader(PROGRAM, "-c", script, variables={"LD_DEBUG": "libs"})
    tried = re.findall(r"trying file=(\S+/)libenvdoctor-nowhere.so", said)
    rules = rules_of_this_machine()

    subfolders = [*(f"{capability}/" for capability in rules.capabilities), ""]
    expected = [folder + subfolder for folder in rules.default_folders for subfolder in subfolders]

    # The program and `_ctypes` may have search paths of their own.
    assert [path for path in tried if path in expected] == expected


@pytest.mark.parametrize(
    ("content", "folders", "lib"),
    [
        (b"/lib64/\0/usr/lib64/", ("/lib64/", "/usr/lib64/"), "lib64"),
        (b"/usr/lib/", ("/usr/lib/",), "lib"),
        (b"/nix/store/0-glibc-2.28/lib/", ("/nix/store/0-glibc-2.28/lib/",), "lib"),
        (
            b"/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0/usr/lib/",
            ("/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib/", "/usr/lib/"),
            "lib/x86_64-linux-gnu",
        ),
    ],
)
def test_the_default_folders_of_a_distribution_are_read(
    content: bytes, folders: tuple[str, ...], lib: str, tmp_path: Path
) -> None:
    rules = read_search_rules(make_loader(tmp_path, content), layout.MACHINE_X86_64, "/a:/b")

    assert rules.default_folders == folders
    assert rules.lib == lib
    assert rules.glibc == (2, 28)
    assert rules.library_path == ("/a", "/b")


def test_subfolders_follow_the_release(tmp_path: Path) -> None:
    old = read_search_rules(make_loader(tmp_path, b"/lib64/"), layout.MACHINE_X86_64, "")
    new = read_search_rules(
        make_loader(tmp_path, b"/lib64/", BANNER.replace(b"2.28", b"2.37")), layout.MACHINE_X86_64, ""
    )
    arm = read_search_rules(make_loader(tmp_path, b"/lib64/"), layout.MACHINE_AARCH64, "")

    assert {capability.split("/")[0] for capability in old.capabilities} >= {"tls", "x86_64"}
    assert {capability.split("/")[0] for capability in new.capabilities} <= {"glibc-hwcaps"}
    assert arm.capabilities == ()
    assert arm.platform == "aarch64"


@pytest.mark.parametrize(
    ("content", "library"),
    [(b"", BANNER), (b"/lib64/", b""), (b"/lib64/", b"GNU C Library of no release\n")],
)
def test_a_loader_that_tells_too_little_is_said(content: bytes, library: bytes, tmp_path: Path) -> None:
    with pytest.raises(ProbeError):
        read_search_rules(make_loader(tmp_path, content, library), layout.MACHINE_X86_64, "")


def test_a_loader_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=os.strerror(2)):
        read_search_rules(str(tmp_path / "ld.so"), layout.MACHINE_X86_64, "")
