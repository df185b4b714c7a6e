"""The fixture `unprivileged`, for every test of what a user may not read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_NOBODY = 65534


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of a user who may not read everything: root gives its rights up until the test has ended."""
    folder = Path(tempfile.mkdtemp())  # every folder above that of `tmp_path` is locked
    user = os.geteuid()
    if user == 0:
        os.chown(folder, _NOBODY, -1)
        os.seteuid(_NOBODY)
    yield folder
    os.seteuid(user)
    shutil.rmtree(folder)
