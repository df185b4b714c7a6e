"""What is told about libraries that cannot be loaded: real ones in a real environment, and the real loader's words."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envdoctor import kb
from envdoctor.model.facts import Absence, SearchEntry, Unavailable
from envdoctor.model.loading import Loader, LoadFault, LoadWay
from envdoctor.probes.library_files import find_libraries
from envdoctor.probes.loader import Installation, find_foreign, find_loader
from tests.builders import NO_TORCH, an_environment
from tests.compiler import build_library, needs_compiler
from tests.probes.pythons import make_venv
from tests.probes.venvs import SUFFIX, VERSION, Venv, init

pytestmark = needs_compiler


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(make_venv(tmp_path / "venv", VERSION))


# --- what loads --------------------------------------------------------------------------------------------------


def test_nothing_is_said_about_what_loads(venv: Venv) -> None:
    torch = venv.torch()
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))
    build_library(venv.package("y") / f"_C{SUFFIX}", init("_C"))

    loader = venv.predict()

    assert (loader.asked, loader.failed, loader.torch, loader.unreadable) == (2, (), None, ())
    names = [library.name for library in loader.torch_process]
    assert names[names.index("libtorch.so") - 1] == str(venv.site / f"torch/_C{SUFFIX}")


# --- a missing library -------------------------------------------------------------------------------------------


def test_a_missing_library_is_told_with_the_way_to_it(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "elsewhere" / "libgone.so.11.0")
    folder = venv.package("x", "import sys\nfrom . import ops")
    (folder / "ops.py").write_text("from ._C import f")
    module = build_library(folder / f"_C{SUFFIX}", init("_C"), needs=(gone,))
    relative = build_library(venv.site / "y" / "lib" / "libgone.so.12")

    failed = venv.fail()

    assert failed.failure.words == venv.real_words("import x")
    assert (failed.library, failed.module, failed.distribution) == (str(module), "x._C", "x")
    assert (failed.way, failed.import_chain) == (LoadWay.WITH_PACKAGE, ("x/__init__.py:2", "x/ops.py:1"))
    assert (failed.failure.fault, failed.failure.name) == (LoadFault.LIBRARY, "libgone.so.11.0")
    assert (failed.failure.holders, failed.failure.relatives) == ((), (str(relative),))
    assert not failed.needs_torch
    assert not failed.after_torch


def test_a_library_that_lies_where_the_loader_does_not_look_is_named(venv: Venv) -> None:
    holder = build_library(venv.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12")
    holder.with_name("libcublas.so").symlink_to(holder)
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(holder,))

    assert venv.fail().failure.holders == (str(holder),)


@pytest.mark.parametrize("source", ["", "try:\n    from . import _C\nexcept ImportError:\n    _C = None"])
def test_a_module_that_nobody_imports_for_certain_may_not_matter(source: str, venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    build_library(venv.package("x", source) / f"_C{SUFFIX}", init("_C"), needs=(gone,))

    failed = venv.fail()

    assert (failed.way, failed.import_chain) == (LoadWay.PERHAPS, ())


def test_a_distribution_that_is_nothing_but_modules_is_imported_by_them(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    build_library(venv.site / f"x_cuda{SUFFIX}", init("x_cuda"), needs=(gone,))
    venv.distribution("x", f"x_cuda{SUFFIX}")

    failed = venv.fail()

    assert (failed.module, failed.way, failed.import_chain) == ("x_cuda", LoadWay.WITH_PACKAGE, ())


def test_a_module_beside_a_package_that_does_not_import_it_may_not_matter(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    venv.package("x")
    build_library(venv.site / f"x_cuda{SUFFIX}", init("x_cuda"), needs=(gone,))
    venv.distribution("x", "x/__init__.py", f"x_cuda{SUFFIX}")

    assert venv.fail().way is LoadWay.PERHAPS


def test_a_package_that_opens_libraries_itself_may_mend_it(venv: Venv, tmp_path: Path) -> None:
    """tensorrt and cupy find the libraries of nvidia-* wheels so."""
    gone = build_library(tmp_path / "libgone.so.1")
    source = "import ctypes\nctypes.CDLL('libgone.so.1')\nfrom . import _C"
    build_library(venv.package("x", source) / f"_C{SUFFIX}", init("_C"), needs=(gone,))

    assert venv.fail().preloads == ("x/__init__.py:2",)


def test_what_is_opened_when_first_used_is_told_so(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    folder = venv.site / "onnxruntime" / "capi"
    build_library(folder / "libonnxruntime_providers_cuda.so", needs=(gone,))

    failed = venv.fail()

    assert (failed.way, failed.module) == (LoadWay.LAZY, "")


# --- symbols and versions ----------------------------------------------------------------------------------------

WITH_STRING = """#include <string>
namespace c10 { struct Error { void what(const std::string &); std::string name() const; }; }
"""


def test_the_other_abi_of_strings_shows(venv: Venv) -> None:
    body = "void c10::Error::what(const std::string &) {} std::string c10::Error::name() const { return {}; }"
    torch = venv.torch(WITH_STRING + body)
    use = "c10::Error error; error.what({}); return 0;"
    source = WITH_STRING + init("_C", use)
    old_abi = ("-D_GLIBCXX_USE_CXX11_ABI=0",)
    module = build_library(venv.package("x") / f"_C{SUFFIX}", source, needs=(torch,), options=old_abi)

    failed = venv.fail()

    assert failed.failure.words == venv.real_words("import torch, x._C")
    assert failed.failure.words == f"{module}: undefined symbol: _ZN3c105Error4whatERKSs"
    assert failed.failure.demangled == ("c10::Error::what(std::string const&)",)
    assert failed.failure.other_abi == ("_ZN3c105Error4whatERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",)
    assert (failed.needs_torch, failed.after_torch) == (True, True)


def test_a_symbol_that_torch_lacks_in_any_abi_has_no_twin(venv: Venv) -> None:
    torch = venv.torch()
    source = "void gone(); void also_gone();" + init("_C", "gone(); also_gone(); return 0;")
    build_library(venv.package("x") / f"_C{SUFFIX}", source, needs=(torch,))

    failure = venv.fail().failure

    assert (failure.fault, failure.other_abi, failure.holders) == (LoadFault.SYMBOL, (), ())
    assert sorted(failure.demangled) == ["also_gone()", "gone()"]


def test_a_library_of_torch_that_is_not_loaded_may_define_the_symbol(venv: Venv) -> None:
    torch = venv.torch()
    holder = build_library(torch.with_name("libtorch_cuda.so"), "void gone() {}")
    source = "void gone();" + init("_C", "gone(); return 0;")
    build_library(venv.package("x") / f"_C{SUFFIX}", source, needs=(torch,))

    assert venv.fail().failure.holders == (str(holder),)


def test_a_library_that_the_package_opens_for_everybody_may_define_the_symbol(venv: Venv) -> None:
    source = "import ctypes\nctypes.CDLL(__path__[0] + '/libhelper.so', ctypes.RTLD_GLOBAL)\nfrom . import _C"
    folder = venv.package("x", source)
    holder = build_library(folder / "libhelper.so", "void gone() {}")
    build_library(folder / f"_C{SUFFIX}", "void gone();" + init("_C", "gone(); return 0;"))

    failed = venv.fail()

    assert (failed.failure.holders, failed.preloads) == ((str(holder),), ("x/__init__.py:2",))


def versioned(path: Path, *versions: str) -> Path:
    """Build a library that defines symbol versions."""
    script = path.with_suffix(".map")
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("".join(f"{version} {{ global: {version.lower()}; }};\n" for version in versions))
    source = "".join(f'extern "C" void {version.lower()}() {{}}\n' for version in versions)
    return build_library(path, source, options=(f"-Wl,--version-script={script}",))


def test_an_older_library_on_the_library_path_is_told_with_the_right_one(venv: Venv, tmp_path: Path) -> None:
    own = versioned(venv.site / "nvidia" / "nvjitlink" / "lib" / "libnvJitLink.so.12", "V_1", "V_2")
    older = versioned(tmp_path / "older" / "libnvJitLink.so.12", "V_1")
    source = 'extern "C" void v_2();' + init("_C", "v_2(); return 0;")
    runpath = ("-Wl,--enable-new-dtags", f"-Wl,-rpath,{own.parent}")
    build_library(venv.package("x") / f"_C{SUFFIX}", source, needs=(own,), options=runpath)
    path = {"LD_LIBRARY_PATH": str(older.parent)}

    loader = venv.predict(**path)

    [failed] = loader.failed
    [overridden] = loader.overridden
    assert failed.failure.words == venv.real_words("import x._C", **path)
    assert (failed.failure.fault, failed.failure.name, failed.failure.holders) == (
        LoadFault.VERSION,
        "V_2",
        (str(own),),
    )
    assert (overridden.taken.path, overridden.own) == (str(older), str(own))
    assert (overridden.taken.found_through, overridden.same_content) == ("LD_LIBRARY_PATH", False)
    assert venv.predict().failed == ()


def test_a_newer_library_of_conda_is_named(venv: Venv, tmp_path: Path) -> None:
    """`GLIBCXX_3.4.30 not found`, and $CONDA_PREFIX/lib/libstdc++.so.6 has it."""
    newer = versioned(tmp_path / "conda" / "lib" / "libold.so.6", "V_1", "V_2")
    older = versioned(tmp_path / "older" / "libold.so.6", "V_1")
    source = 'extern "C" void v_2();' + init("_C", "v_2(); return 0;")
    build_library(venv.package("x") / f"_C{SUFFIX}", source, needs=(newer,))

    failure = venv.fail(LD_LIBRARY_PATH=str(older.parent), CONDA_PREFIX=str(tmp_path / "conda")).failure

    assert failure.words == venv.real_words("import x._C", LD_LIBRARY_PATH=str(older.parent))
    assert failure.provider is not None
    assert (failure.provider.path, failure.holders) == (str(older), (str(newer),))


def test_another_copy_that_happens_to_work_is_told_with_both_versions(venv: Venv, tmp_path: Path) -> None:
    own = versioned(venv.site / "nvidia" / "cublas" / "lib" / "libcublasLt.so.12", "V_1")
    venv.distribution("nvidia_cublas_cu12", "nvidia/cublas/lib/libcublasLt.so.12")
    other = versioned(tmp_path / "cuda" / "libcublasLt.so.12.1.3", "V_1", "V_2")
    (other.parent / own.name).symlink_to(other)
    runpath = ("-Wl,--enable-new-dtags", f"-Wl,-rpath,{own.parent}")
    venv.torch(needs=(own,))
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(own,), options=runpath)

    [overridden] = venv.predict(LD_LIBRARY_PATH=str(other.parent)).overridden

    assert (overridden.taken_version, overridden.own_version) == ("12.1.3", "1.0")


@pytest.mark.parametrize("way", ["the same file", "a copy"])
def test_the_same_library_from_elsewhere_is_told_apart(way: str, venv: Venv, tmp_path: Path) -> None:
    own = versioned(venv.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12", "V_1")
    folder = own.parent
    if way == "a copy":
        folder = tmp_path / "copy"
        folder.mkdir()
        (folder / own.name).write_bytes(own.read_bytes())
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(own,))

    overridden = venv.predict(LD_LIBRARY_PATH=str(folder)).overridden

    assert [each.same_content for each in overridden] == ([True] if way == "a copy" else [])


def test_a_preloaded_library_is_told_as_such(venv: Venv, tmp_path: Path) -> None:
    own = versioned(venv.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12", "V_1")
    other = versioned(tmp_path / "other" / "libcublas.so.12", "V_1", "V_2")
    runpath = ("-Wl,--enable-new-dtags", f"-Wl,-rpath,{own.parent}")
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(own,), options=runpath)

    [overridden] = venv.predict(LD_PRELOAD=str(other)).overridden

    assert (overridden.taken.found_through, overridden.own) == ("LD_PRELOAD", str(own))


# --- torch itself ------------------------------------------------------------------------------------------------


def test_where_torch_fails_only_its_failure_is_told(venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "elsewhere" / "libgone.so.1")
    torch = venv.torch(needs=(gone,))
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))
    build_library(venv.package("y") / f"_C{SUFFIX}", init("_C"), needs=(gone,))
    venv.distribution("z", f"z/_C{SUFFIX}", requires="torch>=2")
    build_library(venv.site / "z" / f"_C{SUFFIX}", init("_C"), needs=(gone,))

    loader = venv.predict()

    assert loader.torch is not None
    assert loader.torch.words == venv.real_words("import torch")
    assert [failed.module for failed in loader.failed] == ["y._C"]
    assert (loader.asked, loader.torch_process) == (1, ())


def test_what_needs_a_torch_that_is_not_there_cannot_be_loaded(venv: Venv, tmp_path: Path) -> None:
    torch = build_library(tmp_path / "libc10.so")
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))

    failed = venv.fail()

    assert failed.failure.words == venv.real_words("import x._C")
    assert (failed.needs_torch, failed.after_torch) == (True, False)


def test_a_torch_for_another_python_stops_before_any_loader(venv: Venv) -> None:
    torch = venv.torch()
    (venv.site / f"torch/_C{SUFFIX}").rename(venv.site / "torch/_C.cpython-38-x86_64-linux-gnu.so")
    build_library(venv.package("x") / f"_C{SUFFIX}", init("_C"), needs=(torch,))

    loader = venv.predict()

    assert (loader.asked, loader.torch) == (0, None)


def test_what_requires_torch_is_loaded_after_it(venv: Venv) -> None:
    venv.torch()
    build_library(venv.site / "x" / f"_C{SUFFIX}", "void gone();" + init("_C", "gone(); return 0;"))
    venv.distribution("x", f"x/_C{SUFFIX}", requires="torch (>=1.8)")

    failed = venv.fail()

    assert (failed.needs_torch, failed.after_torch) == (False, True)


def test_libraries_that_need_each_other_may_need_torch(venv: Venv) -> None:
    torch = venv.torch()
    folder = venv.package("x", "from . import _C\nfrom . import _D\n")
    first = build_library(folder / "liba.so")
    second = build_library(folder / "libb.so", needs=(first,))
    build_library(first, needs=(second, torch))
    for name, needed in {"_C": first, "_D": second}.items():
        source = "void gone();" + init(name, "gone(); return 0;")
        build_library(folder / f"{name}{SUFFIX}", source, needs=(needed,), options=("-Wl,--allow-shlib-undefined",))

    modules = [failed for failed in venv.predict().failed if failed.module]
    assert [(failed.module, failed.needs_torch) for failed in modules] == [("x._C", True), ("x._D", True)]


def test_a_chain_may_be_longer_than_python_nests_calls(venv: Venv, tmp_path: Path) -> None:
    folder = venv.package("x", "from . import _C\n")
    end = build_library(tmp_path / "lib00000.so")
    link = build_library(tmp_path / "lib11111.so", needs=(end,), options=("-Wl,-rpath,$ORIGIN",)).read_bytes()
    (folder / "lib00000.so").write_bytes(end.read_bytes())
    for number in range(1, 1200):
        content = link.replace(b"lib00000.so", b"lib%05d.so" % (number - 1))
        (folder / f"lib{number:05}.so").write_bytes(content.replace(b"lib11111.so", b"lib%05d.so" % number))
    last = folder / "lib01199.so"
    options = ("-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined")
    source = "void gone();" + init("_C", "gone(); return 0;")
    build_library(folder / f"_C{SUFFIX}", source, needs=(last,), options=options)

    assert venv.fail().failure.words == venv.real_words("import x")


def test_what_uses_symbols_of_an_old_torch_is_loaded_after_it(venv: Venv) -> None:
    """Up to torch 1.4 extensions are not linked to its libraries, and many setup.py do not name torch."""
    venv.torch("namespace c10 { void check() {} }")
    source = "namespace c10 { void check(); }" + init("_C", "c10::check(); return 0;")
    build_library(venv.package("x", "import torch\nfrom . import _C\n") / f"_C{SUFFIX}", source)

    loader = venv.predict()

    assert (loader.asked, loader.failed) == (1, ())


@pytest.mark.parametrize("requirement", ["torch; extra == 'all'", "torchvision", "pytorch", "torch-geometric"])
def test_what_only_may_be_used_with_torch_is_loaded_alone(requirement: str, venv: Venv) -> None:
    venv.torch()
    build_library(venv.site / "x" / f"_C{SUFFIX}", "void gone();" + init("_C", "gone(); return 0;"))
    venv.distribution("x", f"x/_C{SUFFIX}", requires=requirement)

    assert not venv.fail().after_torch


# --- bad files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", b"\x7fELF"]
)
def test_a_damaged_file_is_told_in_the_words_of_the_loader(content: bytes, venv: Venv) -> None:
    (venv.package("x", "from . import _C") / f"_C{SUFFIX}").write_bytes(content)
    build_library(venv.package("y") / f"_C{SUFFIX}", init("_C"))

    loader = venv.predict()

    [failed] = loader.failed
    assert failed.failure.words == venv.real_words("import x")
    assert (failed.failure.fault, failed.way, loader.asked) == (LoadFault.FILE, LoadWay.WITH_PACKAGE, 2)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def a_loop_of_links(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [os.mkfifo, a_folder, a_link_to_nowhere, a_loop_of_links])
def test_a_file_that_is_none_loses_nothing_else(make: Callable[[Path], None], venv: Venv, tmp_path: Path) -> None:
    gone = build_library(tmp_path / "libgone.so.1")
    build_library(venv.package("y", "from . import _C") / f"_C{SUFFIX}", init("_C"), needs=(gone,))
    make(venv.package("x", "from . import _C, other") / f"_C{SUFFIX}")
    make(venv.site / "x" / "other.py")
    make(venv.site / "libz.so")

    failed = {each.module: each for each in venv.predict().failed}

    assert failed["y._C"].import_chain == ("y/__init__.py:1",)


def test_what_this_user_cannot_read_is_not_judged(unprivileged: Path) -> None:
    module = build_library(unprivileged / "x" / "_C.so", init("_C"))
    module.chmod(0)
    (unprivileged / "nvidia").mkdir(mode=0)
    # Any program will do: this user need not be able to read an interpreter of the tests.
    entries = (SearchEntry(path=str(unprivileged), origin="site-packages"),)
    environment = an_environment(interpreter=shutil.which("true"), search_path=entries)
    libraries = find_libraries(environment, NO_TORCH)
    installation = Installation(
        environment=environment, distributions=(), torch=NO_TORCH, libraries=libraries, variables=()
    )

    loader = find_loader(installation, kb.load())

    assert isinstance(loader, Loader)
    assert loader.unreadable == (f"{unprivileged}/nvidia: Permission denied", f"{module}: Permission denied")
    assert (loader.asked, loader.failed) == (0, ())


# --- what torch compiled -----------------------------------------------------------------------------------------


def predict_with(venv: Venv, library: Path) -> Loader:
    loader = find_loader(replace(venv.installation(), jit_libraries=(str(library),)), kb.load())
    assert isinstance(loader, Loader)
    return loader


def test_what_torch_compiled_is_asked_in_its_process(venv: Venv, tmp_path: Path) -> None:
    """As in https://github.com/RenYurui/PIRender/issues/21: conda's libstdc++ is older than the compiler."""
    script = tmp_path / "versions"
    names = (*(f"GLIBCXX_3.4.{minor}" for minor in range(1, 29)), *(f"CXXABI_1.3.{minor}" for minor in range(1, 13)))
    script.write_text("GLIBCXX_3.4 {}; CXXABI_1.3 {};" + "".join(f"{name} {{}};" for name in names))
    older = build_library(
        venv.site / "torch" / "lib" / "libstdc++.so.6", options=(f"-Wl,--version-script={script}", "-nostdlib")
    )
    torch = venv.torch()
    # Its check of the size is std::__throw_bad_array_new_length, of GLIBCXX_3.4.29.
    source = "#include <memory>\nint* f(int n) { return std::allocator<int>().allocate(n); }\n"
    plugin = build_library(
        tmp_path / "nvdiffrast_plugin" / "nvdiffrast_plugin.so", source + init("nvdiffrast_plugin"), needs=(torch,)
    )

    loader = predict_with(venv, plugin)

    [failed] = loader.failed
    assert failed.failure.words == venv.real_words(f"import torch, ctypes; ctypes.CDLL('{plugin}')")
    assert f"{older}: version `GLIBCXX_3.4.29' not found" in failed.failure.words
    assert (failed.library, failed.module, failed.distribution) == (str(plugin), "nvdiffrast_plugin", "")
    assert (failed.way, failed.import_chain, failed.after_torch) == (LoadWay.CACHED, (), True)


def test_what_torch_compiled_takes_the_libraries_of_torch(venv: Venv, tmp_path: Path) -> None:
    torch = venv.torch()
    fused = build_library(
        tmp_path / "fused" / "fused.so", f"void f(); void g() {{ f(); }} {init('fused')}", needs=(torch,)
    )

    loader = predict_with(venv, fused)

    assert (loader.asked, loader.failed) == (1, ())


def test_what_torch_compiled_is_not_asked_where_torch_fails(venv: Venv, tmp_path: Path) -> None:
    venv.torch().unlink()
    fused = build_library(tmp_path / "fused" / "fused.so", init("fused"))

    assert predict_with(venv, fused).asked == 0


# --- where there is nothing to tell ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "absence"),
    [
        ({"platform": "macosx-14.0-arm64"}, Absence.NOT_APPLICABLE),
        ({"platform": "win-amd64"}, Absence.NOT_APPLICABLE),
        ({"interpreter": "/nowhere/python"}, Absence.UNREADABLE),
    ],
)
def test_other_loaders_are_not_judged(changes: dict[str, Any], absence: Absence, venv: Venv) -> None:
    installation = venv.installation()

    loader = find_loader(replace(installation, environment=replace(installation.environment, **changes)), kb.load())

    assert isinstance(loader, Unavailable)
    assert loader.absence is absence


def test_a_module_for_another_interpreter_is_found(venv: Venv) -> None:
    (venv.package("x", "from . import _C") / "_C.cpython-38-x86_64-linux-gnu.so").touch()

    [module] = find_foreign(venv.installation())

    assert (module.module, module.distribution, module.import_chain) == ("x._C", "x", ("x/__init__.py:1",))
