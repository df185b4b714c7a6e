"""Any file of an environment may be anything: the examination does not hang on it, and what others tell stands."""

import os
import shutil
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envdoctor import api
from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Facts
from envdoctor.model.finding import Status
from envdoctor.probes import Plan, collect
from tests.binary.files import FIXTURES

LIBRARY = FIXTURES / "rdc" / "librdc.so"
TEXTS = {
    "pyvenv.cfg": "home = /usr/bin\nversion = 3.11.7\n",
    "conda-meta/pytorch-2.0.1-py3.11_cuda11.7_0.json": '{"files": ["site-packages/torch-2.0.1.dist-info"]}',
    "conda-meta/cudnn-8.9.2-0.json": "{}",
    "site/torch/__init__.py": "",
    "site/torch/version.py": "__version__ = '2.0.1+cu117'\ncuda = '11.7'\n",
    "site/torch-2.0.1.dist-info/METADATA": "Name: torch\nVersion: 2.0.1\n",
    "site/torch-2.0.1.dist-info/INSTALLER": "pip\n",
    "site/torch-2.0.1.dist-info/RECORD": "torch/__init__.py,,\ntorch/version.py,,\n",
    "site/triton/__init__.py": "__version__ = '2.0.0'\n",
    "site/ext/__init__.py": "import ext._C\n",
    "site/ext/kernel.cu": "",
    "site/ext-1.0.dist-info/METADATA": "Name: ext\nVersion: 1.0\nRequires-Dist: torch\n",
    "site/ext-1.0.dist-info/RECORD": "ext/__init__.py,,\next/_C.so,,\next/kernel.cu,,\n",
    "site/ext-1.0.dist-info/direct_url.json": '{"url": "file:///src/ext", "dir_info": {}}',
    "site/old.egg-info/PKG-INFO": "Name: old\nVersion: 0.1\n",
    "site/old.egg-info/requires.txt": "torch\n[gpu]\ntriton\n",
    "site/old.egg-info/SOURCES.txt": "old/__init__.py\nold/kernel.cu\n",
    "site/single.egg-info": "Name: single\nVersion: 0.2\n",
    "site/dev.egg-link": "../src\n.",
    "site/easy-install.pth": "../src\n./zipped-1.0-py3.11.egg\n",
    "site/__editable__.hooked.pth": "import __editable___hooked_finder\n",
    "site/__editable___hooked_finder.py": "MAPPING = {'hooked': '/src/hooked'}\n",
    "site/~orch-2.0.0.dist-info/METADATA": "Name: torch\nVersion: 2.0.0\n",
    "site/sitecustomize.py": "",
    "src/dev.egg-info/PKG-INFO": "Name: dev\nVersion: 0.3\n",
    "cache/torch_extensions/py311_cu117/fused/build.ninja": "flags = -gencode=arch=compute_86,code=sm_86\n",
    "cache/torch_extensions/py311_cu117/fused/lock": "",
    "cuda/bin/nvcc": "#!/bin/sh\necho release 11.7\n",
    "cuda/version.json": '{"cuda": {"version": "11.7.1"}}',
}
LIBRARIES = (
    "site/torch/_C.cpython-311-x86_64-linux-gnu.so",
    "site/torch/lib/libtorch_python.so",
    "site/torch/lib/libtorch_cuda.so",
    "site/triton/third_party/cuda/bin/ptxas",
    "site/ext/_C.so",
    "cache/torch_extensions/py311_cu117/fused/fused.so",
)


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with every kind of file that is read; of its Python there is the folder only."""
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "site").symlink_to(site)
    for name in (*TEXTS, *LIBRARIES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    for name in LIBRARIES:
        shutil.copy(LIBRARY, tmp_path / name)
    with zipfile.ZipFile(site / "zipped-1.0-py3.11.egg", "w") as egg:
        egg.writestr("EGG-INFO/PKG-INFO", "Name: zipped\nVersion: 1.0\n")
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    for name, folder in (("XDG_CACHE_HOME", "cache"), ("CUDA_HOME", "cuda"), ("PATH", "nothing")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    return tmp_path


@contextmanager
def patience() -> Iterator[None]:
    """End what hangs with an error."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


def examine(prefix: Path, kb: KnowledgeBase) -> Facts:
    with patience():
        return collect(Plan(prefix=str(prefix), gpus=("4090",)), kb)


def libraries_of(facts: Facts) -> set[str]:
    """The libraries with device code in site-packages."""
    assert isinstance(facts.device_code, tuple)
    return {code.library for code in facts.device_code if "site-packages" in code.library}


def _replace_by_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _replace_by_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "endless": _replace_by_endless,
    "huge": _replace_by_huge,
    "empty": Path.touch,
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 100),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "numbers": lambda path: path.write_bytes(b"1" * 100_000),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_no_file_keeps_the_others_from_being_read(obstacle: str, prefix: Path, kb: KnowledgeBase) -> None:
    whole = examine(prefix, kb)
    names = [str(path.relative_to(prefix)) for path in sorted(prefix.rglob("*")) if path.is_file()]
    for name in names:
        (prefix / name).rename(prefix / "aside")
        OBSTACLES[obstacle](prefix / name)
        facts = examine(prefix, kb)
        statuses = {outcome.status for outcome in api.judge(facts).outcomes}
        if (prefix / name).is_dir() and not (prefix / name).is_symlink():
            (prefix / name).rmdir()
        else:
            (prefix / name).unlink(missing_ok=True)
        (prefix / "aside").rename(prefix / name)

        assert Status.CRASHED not in statuses, name
        lost = libraries_of(whole) - libraries_of(facts)
        assert {library for library in lost if Path(library).name != Path(name).name} == set(), name
        if "torch" not in name:
            assert facts.torch == whole.torch, name


def test_the_environment_is_whole_at_first(prefix: Path, kb: KnowledgeBase) -> None:
    facts = examine(prefix, kb)

    assert isinstance(facts.distributions, tuple)
    assert {each.name for each in facts.distributions} >= {"torch", "ext", "old", "single", "dev", "zipped"}
    assert isinstance(facts.jit_extensions, tuple)
    assert len(facts.jit_extensions) == 1
    assert len(libraries_of(facts)) == 4
