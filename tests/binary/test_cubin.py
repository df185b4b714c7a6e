"""Bare cubins of five toolkits: the file's name says what ptxas was asked for."""

import re
from pathlib import Path

import pytest

from envdoctor.binary.cubin import parse_cubin
from envdoctor.binary.elf import ElfError
from envdoctor.binary.reader import BytesReader, open_file
from tests.binary.files import FIXTURES, content_of


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.cubin")), ids=lambda path: path.stem)
def test_the_architecture_is_the_one_that_ptxas_was_asked_for(path: Path) -> None:
    [asked] = re.findall(r"_(\d+[af]?)$", path.stem)

    with open_file(path) as reader:
        assert str(parse_cubin(reader)) == f"sm_{asked}"


def test_a_host_library_is_no_cubin() -> None:
    with pytest.raises(ElfError, match="not a cubin"):
        parse_cubin(BytesReader(content_of("rdc/librdc.so")))
