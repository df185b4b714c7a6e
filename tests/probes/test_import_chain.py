"""Which statements lead from `import PACKAGE` to one of its modules, and which prove nothing."""

from pathlib import Path

import pytest

from envdoctor.model.facts import SearchEntry
from envdoctor.probes.import_chain import Chain, ImportChains
from tests.builders import an_environment

SUFFIX = ".cpython-310-x86_64-linux-gnu.so"


def find(root: Path, module: str, *siblings: str, standard_library: str = "") -> Chain:
    library = root / f"{module.replace('.', '/')}{SUFFIX}"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()
    entries = [SearchEntry(path=str(root), origin="site-packages")]
    if standard_library:
        entries.append(SearchEntry(path=standard_library, origin="standard library"))
    environment = an_environment(search_path=tuple(entries), extension_suffixes=(SUFFIX, ".abi3.so", ".so"))
    return ImportChains(environment).find(module, str(library), siblings)


def package(root: Path, init: str, **modules: str) -> None:
    """Write the package `x`; of `ops_nms` becomes `x/ops/nms.py`."""
    for name, text in {"__init__": init, **modules}.items():
        path = root / "x" / f"{name if name.startswith('_') else name.replace('_', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# --- proof -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "from . import _C",
        "from x import _C",
        "from ._C import f",
        "from x._C import f",
        "from ._C import *",
        "import x._C",
        "import os, x._C as native",
        "from . import a, _C",
        "import importlib; importlib.import_module('x._C')",
        "native = __import__('x._C')",
        "if TYPE_CHECKING:\n    pass\nelse:\n    from . import _C",
        "if not typing.TYPE_CHECKING: from . import _C",
        "if True: from . import _C",
        "try: from . import _C\nfinally: pass",
        "try: from . import _C\nexcept ModuleNotFoundError: pass",
        "try: from . import _C\nexcept (ValueError, KeyError): pass",
        "try: from . import _C\nexcept ImportError as e: raise ImportError('build it first') from e",
        "try: pass\nexcept ImportError: pass\nfinally:\n    from . import _C",
        "kept = None\ntry: from . import _C\nexcept Exception as e: kept = e\nimport y\nif kept: raise kept",
        "with warnings.catch_warnings(): from . import _C",
        "def load():\n    import x._C\nload()",
        "def load():\n    import x._C\n    return x._C\nnative = load()",
        "try:\n    import y\nexcept ImportError:\n    def f(): return 1\nfrom . import _C",
        "from . import _C\n_C = wrap(_C)\ndef __getattr__(name): ...",
        "FAST = True\nif FAST: from . import _C",
        "FAST = False\nif not FAST: from . import _C",
        "AMD = os.getenv('X_AMD', 'FALSE') == 'TRUE'\nif AMD: pass\nelse: from . import _C",
        "if os.environ.get('X_AMD', '0') == '0': from . import _C",
    ],
)
def test_a_statement_that_every_import_reaches_is_proof(statement: str, tmp_path: Path) -> None:
    package(tmp_path, statement, a="")

    [step] = find(tmp_path, "x._C").statements

    assert step.startswith("x/__init__.py:")


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "def f(): from . import _C",
        "class A: from . import _C",
        "if TYPE_CHECKING: from . import _C",
        "if sys.platform == 'linux': from . import _C",
        "if torch.cuda.is_available():\n    pass\nelse:\n    from . import _C",
        "for _ in names: from . import _C",
        "FAST = True\nif there: FAST = False\nif FAST: from . import _C",
        "AMD = os.getenv('X_AMD', 'FALSE') == 'TRUE'\nif AMD: from . import _C",
        "FAST = is_fast()\nif FAST: from . import _C",
        "FAST = True\nif settings.FAST: from . import _C",
        "FAST = True\ndef slow():\n    global FAST\n    FAST = False\nslow()\nif FAST: from . import _C",
        "FAST = True\ndef load(FAST):\n    if FAST: from . import _C\nload(False)",
        "if settings.get('X_AMD', '0') == '0': from . import _C",
        "if os.getenv('X_AMD') == '1': from . import _C",
        "try: from . import _C\nexcept ImportError: _C = None",
        "try: from . import _C\nexcept (ValueError, ImportError): pass",
        "try: from . import _C\nexcept Exception: pass",
        "try: from . import _C\nexcept: pass",
        "failure = None\ntry: from . import _C\nexcept Exception as e: failure = e\nif failure: warn(failure)",
        "try: from . import _C\nexcept Exception as e: failure = e\nif needed: raise failure",
        "try: from . import _C\nexcept errors.Missing: pass",
        "try: import y\nexcept ImportError: from . import _C",
        "try: import y\nexcept ImportError: pass\nelse:\n    from . import _C",
        "with suppress(ImportError): from . import _C",
        "raise RuntimeError\nfrom . import _C",
        "_C = None\nfrom x import other",
        "load = lambda: __import__('x._C')",
        "def load():\n    if fast: return\n    import x._C\nload()",
        "@cache\ndef load():\n    import x._C\nload()",
        "importlib.import_module(name)",
        "_C = None\nfrom . import _C",
        "def __getattr__(name): ...\nfrom . import _C",
        "from .. import _C",
        "from _C import f",
        "this is no Python",
        "print 'Python 2'\nfrom . import _C",
    ],
)
def test_a_statement_that_may_not_be_reached_or_may_fail_quietly_is_none(statement: str, tmp_path: Path) -> None:
    package(tmp_path, statement)

    assert find(tmp_path, "x._C").statements == ()


def test_the_way_leads_through_modules(tmp_path: Path) -> None:
    package(
        tmp_path,
        "from .config import *\n\nfrom . import ops",
        config="",
        ops___init__="from .nms import nms",
        ops_nms="import torch\nfrom x import _ext",
    )

    assert find(tmp_path, "x._ext").statements == ("x/__init__.py:3", "x/ops/__init__.py:1", "x/ops/nms.py:2")


def test_importing_a_module_imports_the_packages_around_it(tmp_path: Path) -> None:
    package(tmp_path, "import x.ops.nms", ops___init__="from x import _C", ops_nms="")

    assert find(tmp_path, "x._C").statements == ("x/__init__.py:1", "x/ops/__init__.py:1")


def test_modules_that_import_each_other_are_gone_through_once(tmp_path: Path) -> None:
    package(tmp_path, "from . import a", a="from . import b", b="from . import a")

    assert find(tmp_path, "x._C").statements == ()


def test_a_name_that_the_package_defines_is_no_submodule(tmp_path: Path) -> None:
    package(tmp_path, "def ops(): ...\nfrom .user import *", user="from x import ops", ops="from . import _C")

    assert find(tmp_path, "x._C").statements == ()


def test_a_package_that_answers_for_its_names_may_import_nothing(tmp_path: Path) -> None:
    package(tmp_path, "def __getattr__(name): ...\nimport x.user", user="from x import ops", ops="import x._C")

    assert find(tmp_path, "x._C").statements == ()


def test_a_name_that_the_package_defines_later_is_a_submodule_until_then(tmp_path: Path) -> None:
    """matplotlib/__init__.py imports cbook, which imports from matplotlib; then it defines `__getattr__`."""
    package(tmp_path, "from . import user\ndef __getattr__(name): ...", user="from x import _C")

    assert find(tmp_path, "x._C").statements == ("x/__init__.py:1", "x/user.py:1")


def test_another_file_of_the_name_is_the_one_that_is_imported(tmp_path: Path) -> None:
    package(tmp_path, "from . import ops", ops___init__="")

    assert find(tmp_path, "x.ops").statements == ()


def test_a_package_is_found_behind_a_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "repo" / "x").mkdir(parents=True)
    package(tmp_path / "site", "from . import _C")
    library = tmp_path / "site" / "x" / f"_C{SUFFIX}"
    library.touch()
    entries = (SearchEntry(path=str(tmp_path / name), origin="PYTHONPATH") for name in ("repo", "site"))
    environment = an_environment(search_path=tuple(entries))

    assert ImportChains(environment).find("x._C", str(library), ()).statements == ("x/__init__.py:1",)


def test_a_folder_without_sources_imports_nothing(tmp_path: Path) -> None:
    assert find(tmp_path, "x._C").statements == ()


def test_a_source_that_is_too_long_proves_nothing(tmp_path: Path) -> None:
    package(tmp_path, f"from . import _C\n{'x = [' * (1 << 15)}")

    assert find(tmp_path, "x._C").statements == ()


def test_a_switch_in_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """flash_attn has one for AMD's cards."""
    package(tmp_path, "AMD = os.getenv('X_AMD', 'FALSE') == 'TRUE'\nif AMD: pass\nelse: from . import _C")
    monkeypatch.setenv("X_AMD", "TRUE")

    assert find(tmp_path, "x._C").statements == ()


# --- modules outside of packages ---------------------------------------------------------------------------------


def test_a_module_beside_its_package_is_imported_by_it(tmp_path: Path) -> None:
    """flash_attn and flash_attn_2_cuda are one distribution."""
    package(tmp_path, "from .interface import f", interface="import torch\nimport x_cuda as native")

    assert find(tmp_path, "x_cuda", "x", "x_cuda").statements == ("x/__init__.py:1", "x/interface.py:2")


def test_what_another_distribution_imports_is_no_proof(tmp_path: Path) -> None:
    package(tmp_path, "import x_cuda")

    assert find(tmp_path, "x_cuda").statements == ()


def test_the_way_does_not_lead_through_other_distributions(tmp_path: Path) -> None:
    package(tmp_path, "import y")
    (tmp_path / "y.py").write_text("import x._C")

    assert find(tmp_path, "x._C").statements == ()
    assert find(tmp_path, "x._C", "x", "y").statements == ("x/__init__.py:1", "y.py:1")


def test_a_module_for_another_interpreter_is_missed_by_the_statement_that_imports_it(tmp_path: Path) -> None:
    package(tmp_path, "from . import _C")
    library = tmp_path / "x" / "_C.cpython-38-x86_64-linux-gnu.so"
    library.touch()
    environment = an_environment(search_path=(SearchEntry(path=str(tmp_path), origin="site-packages"),))

    assert ImportChains(environment).find("x._C", str(library), ()).statements == ("x/__init__.py:1",)


def test_the_loader_of_opencv_imports_the_module_in_its_folder(tmp_path: Path) -> None:
    source = """
def bootstrap():
    import sys

    def load_first_config(names):
        return False

    if hasattr(sys, "OpenCV_LOADER"):
        raise ImportError("recursion")
    load_first_config(["config.py"])
    py_module = sys.modules.pop("x")
    native_module = importlib.import_module("x")
    sys.modules["x"] = py_module

bootstrap()
"""
    package(tmp_path, source)

    assert find(tmp_path, "x.x").statements == ("x/__init__.py:12",)


# --- statements that open libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "ctypes.CDLL(path)",
        "ctypes.cdll.LoadLibrary(path)",
        "from ctypes import CDLL; CDLL(path)",
        "torch.ops.load_library(path)",
        "sys.setdlopenflags(flags)",
        "_preload_libraries()",
        "try: ctypes.CDLL(path)\nexcept OSError: pass",
    ],
)
@pytest.mark.parametrize("importing", ["from . import _C", ""])
def test_statements_that_open_libraries_are_named(statement: str, importing: str, tmp_path: Path) -> None:
    package(tmp_path, f"{statement}\n{importing}")

    assert len(find(tmp_path, "x._C").preloads) == 1


def test_what_only_windows_has_opens_nothing(tmp_path: Path) -> None:
    package(tmp_path, "if sys.platform == 'win32': os.add_dll_directory(path)\nfrom . import _C")

    assert find(tmp_path, "x._C").preloads == ()


def test_another_distribution_may_open_the_libraries(tmp_path: Path) -> None:
    """tensorrt_bindings imports tensorrt_libs, which opens all that is beside it."""
    package(tmp_path, "try:\n    import y\nexcept ImportError: pass\nfrom . import _C")
    (tmp_path / "y.py").write_text("import ctypes, glob\nfor path in paths:\n    ctypes.CDLL(path)")

    assert find(tmp_path, "x._C").preloads == ("y.py:3",)


def test_the_libraries_that_torch_opens_are_known(tmp_path: Path) -> None:
    package(tmp_path, "import torch\nfrom . import _C")
    (tmp_path / "torch.py").write_text("ctypes.CDLL(path)")

    assert find(tmp_path, "x._C").preloads == ()


def test_the_standard_library_opens_nothing(tmp_path: Path) -> None:
    package(tmp_path / "site", "import ctypes\nfrom . import _C")
    (tmp_path / "ctypes.py").write_text("CDLL(None)")

    assert find(tmp_path / "site", "x._C", standard_library=str(tmp_path)).preloads == ()
