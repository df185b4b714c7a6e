"""What is imported when: start-up is a budget, and every module stands alone."""

import json
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import envdoctor
from envdoctor.model.facts_file import dump_facts
from tests.builders import healthy_facts

ROOT = Path(envdoctor.__file__).parents[1]
HEAVY = {
    "rich",
    "torch",
    "numpy",
    "pynvml",
    "tomli",
    "packaging",
    "jsonschema",
    "asyncio",
    "email",
    "importlib.metadata",
}
OURS = {f"envdoctor.{name}" for name in ("api", "binary", "engine", "kb", "model", "probes", "render", "rules")}

MODULES = [
    info.name for info in pkgutil.walk_packages(envdoctor.__path__, "envdoctor.") if info.name != "envdoctor.__main__"
]


def loaded_by(*args: str) -> set[str]:
    """Run a command line and return the modules that were loaded when it ended."""
    program = (
        "import json, sys\n"
        "from envdoctor.cli import main\n"
        "main(sys.argv[1:])\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ended.stdout.splitlines()[-1]))


def test_asking_for_the_version_loads_click_and_little_else() -> None:
    loaded = loaded_by("--version")

    assert "click" in loaded
    assert loaded & (HEAVY | OURS) == set()


def test_a_plain_report_needs_neither_rich_nor_nvml(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(dump_facts(healthy_facts()))
    loaded = loaded_by("check", "--facts", str(tmp_path / "facts.json"), "--config", "/dev/null")

    assert loaded & {"rich", "torch", "numpy", "pynvml", "importlib.metadata"} == set()


def test_a_scan_loads_no_facts_and_no_tables(tmp_path: Path) -> None:
    (tmp_path / "x.so").touch()
    loaded = loaded_by("scan", str(tmp_path))

    assert "envdoctor.binary.fatbin" in loaded
    assert loaded & (HEAVY | {"envdoctor.api", "envdoctor.kb", "envdoctor.model.facts", "envdoctor.rules"}) == set()


def test_the_public_names_are_loaded_when_they_are_asked_for() -> None:
    program = "import sys, envdoctor; print(sorted(name for name in sys.modules if name.startswith('envdoctor.')))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("name", envdoctor.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(envdoctor, name) is not None


def test_what_is_not_public_is_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'envdoctor' has no attribute 'exmaine'"):
        _ = envdoctor.exmaine


@pytest.mark.parametrize("module", MODULES)
def test_each_module_can_be_imported_alone(module: str) -> None:
    command = [sys.executable, "-W", "error", "-c", f"import {module}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="the contracts are in the source tree")
def test_the_import_contracts_hold() -> None:
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert tool is not None
    ended = subprocess.run([tool, "--no-cache"], capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)

    assert ended.returncode == 0, ended.stdout
