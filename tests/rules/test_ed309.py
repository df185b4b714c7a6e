from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import SearchEntry
from envdoctor.model.finding import Finding
from envdoctor.model.loading import FailedLoad, LoadWay
from envdoctor.rules.ed309_extension_for_another_python import extension_for_another_python
from tests.builders import (
    a_distribution,
    a_failed_load,
    a_foreign_module,
    a_library,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    an_environment,
)


def judge(kb: KnowledgeBase, *failed: FailedLoad, **facts: Any) -> list[Finding]:
    return extension_for_another_python(
        loader=a_loader(*failed),
        environment=an_environment(),
        distributions=(a_distribution("mmcv", "1.7.2"),),
        kb=kb,
        **facts,
    )


def test_a_module_that_the_interpreter_does_not_see(kb: KnowledgeBase) -> None:
    # https://github.com/deadsnakes/issues/issues/112
    [finding] = judge(kb, foreign_modules=(a_foreign_module(),))

    assert finding.message == "mmcv 1.7.2 was built for Python 3.8; Python 3.10 does not see its `mmcv._ext`"
    assert [(one.source, one.value) for one in finding.evidence] == [
        ("mmcv/_ext.cpython-38-x86_64-linux-gnu.so", "tagged cpython-38-x86_64-linux-gnu"),
        ("imported by", "mmcv/ops/__init__.py:3"),
        (
            "what is seen instead",
            "ModuleNotFoundError: No module named 'mmcv._ext', or that it cannot be imported",
        ),
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip install --force-reinstall --no-deps --no-cache-dir mmcv==1.7.2",
    )


def test_what_was_compiled_against_torch_is_built_beside_it(kb: KnowledgeBase) -> None:
    device_code = (a_library("sm_86", distribution="mmcv", needed=("libtorch.so", "libc10.so")),)
    [finding] = judge(kb, foreign_modules=(a_foreign_module(),), device_code=device_code)

    assert finding.remedy is not None
    [command] = finding.remedy.commands
    assert "--no-build-isolation" in command
    assert command.endswith(" --no-binary mmcv mmcv==1.7.2")


@pytest.mark.parametrize("origin", [{"installer": "debian"}, {"direct_url": "file:///home/USER/mmcv-1.7.2.whl"}])
def test_what_pip_cannot_get_for_this_python_has_no_command(kb: KnowledgeBase, origin: dict[str, str]) -> None:
    [finding] = extension_for_another_python(
        loader=a_loader(),
        environment=an_environment(),
        distributions=(a_distribution("mmcv", "1.7.2", **origin),),
        foreign_modules=(a_foreign_module(),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("cpython-36m-x86_64-linux-gnu", "Python 3.6"),
        ("cpython-313t-x86_64-linux-gnu", "Python 3.13t"),
        ("pypy39-pp73-x86_64-linux-gnu", "another Python (pypy39-pp73-x86_64-linux-gnu)"),
    ],
)
def test_the_tag_is_written_as_people_write_versions(kb: KnowledgeBase, tag: str, name: str) -> None:
    [finding] = judge(kb, foreign_modules=(a_foreign_module(tag=tag),))

    assert finding.message.startswith(f"mmcv 1.7.2 was built for {name}; ")


def test_modules_of_one_package_are_one_finding(kb: KnowledgeBase) -> None:
    modules = tuple(a_foreign_module(module=f"mmcv._{name}", library=f"/x/mmcv/_{name}.so") for name in "abcd")

    assert len(judge(kb, foreign_modules=modules)) == 1


def judge_with_pythonpath(kb: KnowledgeBase, *names: str) -> list[Finding]:
    # https://github.com/sneuensc/mapache/issues/9: `source /opt/ros/...` before the venv is used
    folder, tag = "/opt/ros/lib/python3.8/site-packages", "cpython-38-x86_64-linux-gnu"
    modules = tuple(
        a_foreign_module(
            library=f"{folder}/{name}/_ext.{tag}.so",
            module=f"{name}._ext",
            distribution=name,
            import_chain=(f"{name}/__init__.py:1",),
        )
        for name in names
    )
    path = (SearchEntry(path=folder, origin="PYTHONPATH"), *an_environment().search_path)
    distributions = tuple(a_distribution(name, "1.0", location=folder) for name in names)
    return extension_for_another_python(
        loader=a_loader(),
        environment=an_environment(search_path=path),
        distributions=distributions,
        foreign_modules=modules,
        kb=kb,
    )


def test_what_pythonpath_brings_is_kept_out_and_not_reinstalled(kb: KnowledgeBase) -> None:
    [finding] = judge_with_pythonpath(kb, "numpy")

    assert finding.message == "numpy 1.0 was built for Python 3.8; Python 3.10 does not see its `numpy._ext`"
    assert finding.remedy is not None
    assert finding.remedy.summary.startswith("take /opt/ros/lib/python3.8/site-packages off PYTHONPATH")
    assert finding.remedy.commands == ("unset PYTHONPATH",)


def test_packages_of_one_folder_of_pythonpath_are_one_finding(kb: KnowledgeBase) -> None:
    [finding] = judge_with_pythonpath(kb, "contourpy", "numpy", "pandas", "scipy")

    assert finding.message == (
        "contourpy 1.0 and 3 others on PYTHONPATH were built for Python 3.8; Python 3.10 does not see their compiled "
        "modules"
    )
    assert [(one.source, one.value) for one in finding.evidence][1:5] == [
        ("contourpy/_ext.cpython-38-x86_64-linux-gnu.so", "imported by contourpy/__init__.py:1"),
        ("numpy/_ext.cpython-38-x86_64-linux-gnu.so", "imported by numpy/__init__.py:1"),
        ("pandas/_ext.cpython-38-x86_64-linux-gnu.so", "imported by pandas/__init__.py:1"),
        ("likewise", "scipy 1.0"),
    ]


def test_modules_that_nothing_certainly_imports_are_let_be(kb: KnowledgeBase) -> None:
    # Isaac Gym brings gym_36, gym_37 and gym_38, and imports the one for its Python by a name that it puts together.
    assert not judge(kb, foreign_modules=(a_foreign_module(import_chain=()),))


def test_a_library_of_another_python(kb: KnowledgeBase) -> None:
    # https://github.com/REDxEYE/SourceIO/issues/156
    failed = a_failed_load(a_missing_library("libpython3.8.so.1.0"), needs_torch=False, after_torch=False)
    [finding] = judge(kb, failed)

    assert finding.message == "mmcv 1.7.2 was built for Python 3.8; this is Python 3.10"
    assert finding.remedy is not None
    assert finding.remedy.summary == "make an environment with Python 3.8, or build mmcv for this one"
    assert finding.remedy.commands[0].endswith(" mmcv==1.7.2")


def test_the_own_libpython_is_shown_to_the_loader(kb: KnowledgeBase) -> None:
    failure = a_missing_library("libpython3.10.so.1.0", holders=("/opt/env/lib/libpython3.10.so.1.0",))
    [finding] = judge(kb, a_failed_load(failure, needs_torch=False))

    assert finding.message == "mmcv 1.7.2 needs `libpython3.10.so.1.0`, which the loader does not find"
    assert finding.remedy is not None
    assert finding.remedy.commands == ('export LD_LIBRARY_PATH=/opt/env/lib"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',)


def test_a_folder_with_an_odd_name_can_be_pasted(kb: KnowledgeBase) -> None:
    failure = a_missing_library("libpython3.10.so.1.0", holders=("/opt/a $(b)/libpython3.10.so.1.0",))
    [finding] = judge(kb, a_failed_load(failure, needs_torch=False))

    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("export LD_LIBRARY_PATH='/opt/a $(b)'\"$")


def test_the_own_libpython_may_be_missing_altogether(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_failed_load(a_missing_library("libpython3.10.so.1.0"), needs_torch=False))

    assert finding.remedy is not None
    assert "libpython3.10" in finding.remedy.summary


def test_a_symbol_of_another_python(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_failed_load(a_missing_symbol("PyString_FromString"), needs_torch=False))

    assert finding.message == "mmcv 1.7.2 was built for another Python than Python 3.10"


def test_is_silent_where_nothing_imports_it(kb: KnowledgeBase) -> None:
    failed = a_failed_load(
        a_missing_library("libpython3.8.so.1.0"), needs_torch=False, way=LoadWay.PERHAPS, import_chain=()
    )

    assert not judge(kb, failed)
