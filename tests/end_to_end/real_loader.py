"""Asks envdoctor and the real loader the same, of an environment whose torch may be broken."""

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor import api
from envdoctor.model.facts import Facts
from envdoctor.model.loading import Loader
from envdoctor.probes import Plan
from tests.probes.pythons import site_packages_of
from tools.verify_loader import Answer, ask_loader

TORCH = Path(site.getsitepackages()[0], "torch")

_NEEDED_BY_TORCH = (
    "torch-",
    "torchgen",
    "typing_extensions",
    "sympy",
    "mpmath",
    "filelock",
    "networkx",
    "jinja2",
    "fsspec",
)

needs_torch = pytest.mark.skipif(not TORCH.is_dir(), reason="there is no torch beside the tests")


def examine(python: Path) -> Facts:
    """What envdoctor collects of an environment; a named card keeps the driver of this machine out of it."""
    return api.find_facts(Plan(python=str(python), gpus=("sm_89",)))


def loader_of(facts: Facts) -> Loader:
    assert isinstance(facts.loader, Loader)
    return facts.loader


def predicted(facts: Facts, library: Path) -> list[str]:
    """What is predicted of one library, [] when it loads."""
    assert loader_of(facts).torch is None
    return [failed.failure.words for failed in loader_of(facts).failed if failed.library == str(library)]


def predicted_of_torch(facts: Facts) -> list[str]:
    """What is predicted of `import torch`, [] when it succeeds."""
    failure = loader_of(facts).torch
    return [failure.words] if failure else []


def diagnose(facts: Facts) -> list[str]:
    """The codes of what is reported about the loader."""
    report = api.judge(facts, api.Selection(select=("ED3",)))
    return [outcome.rule.code for outcome in report.outcomes if outcome.findings]


def ask(python: Path, library: Path, *, import_torch: bool) -> list[str]:
    """What the real loader says of one library, [] when it loads."""
    return _words(ask_loader(str(python), [str(library)], import_torch=import_torch)[str(library)])


def ask_torch(python: Path) -> list[str]:
    """What the real loader says of `import torch`, [] when it succeeds."""
    return _words(ask_loader(str(python), [], import_torch=True)["import torch"])


def _words(answer: Answer) -> list[str]:
    if answer.outcome == "loaded":
        return []
    # The loader has no words for it; the shell has.
    return ["Bus error" if answer == Answer(outcome="crashed", words="SIGBUS") else answer.words]


def copy_torch(torch: Path, python: Path) -> Path:
    """Give an environment the torch of another one."""
    site_packages = site_packages_of(python)
    unused = shutil.ignore_patterns("include", "__pycache__")
    shutil.copytree(torch, site_packages / "torch", copy_function=link_or_copy, ignore=unused)
    for part in torch.parent.iterdir():
        if part.name.startswith(_NEEDED_BY_TORCH):
            (site_packages / part.name).symlink_to(part)
    return python


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def build_extension(folder: Path) -> Path:
    """Let torch.utils.cpp_extension build a package with an extension against the torch of the tests."""
    (folder / "extension.cpp").write_text(
        "#include <Python.h>\n#include <c10/util/Exception.h>\n"
        'extern "C" PyObject* PyInit__C() { TORCH_CHECK(Py_IsInitialized(), "no Python"); return nullptr; }\n'
    )
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("import torch\nfrom . import _C\n")
    (folder / "setup.py").write_text(
        "from setuptools import setup\n"
        "from torch.utils.cpp_extension import BuildExtension, CppExtension\n"
        "setup(name='package', ext_modules=[CppExtension('package._C', ['extension.cpp'])],\n"
        "      cmdclass={'build_ext': BuildExtension.with_options(use_ninja=False)})\n"
    )
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder
