"""The fixture `fake_nvml`, for every test that needs a driver."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.fake_nvml.machine import FakeMachine, Install, compile_library, install


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Turn a `FakeMachine` into the environment variables under which a child process finds its driver."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make the fake libnvidia-ml.so.1")

    @cache
    def library(missing: tuple[str, ...]) -> Path:
        target = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so"
        compile_library(compiler, target, missing)
        return target

    def make(machine: FakeMachine) -> dict[str, str]:
        return install(machine, library(machine.missing), tmp_path_factory.mktemp("machine"))

    return make
