from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.finding import Finding
from envdoctor.model.loading import BUS_ERROR, LoadFailure, LoadWay
from envdoctor.rules.ed312_damaged_library import damaged_library
from tests.builders import (
    SITE_PACKAGES,
    a_damaged_file,
    a_distribution,
    a_failed_load,
    a_library,
    a_loader,
    a_missing_library,
)

LIBRARY = f"{SITE_PACKAGES}/mmcv/_ext.cpython-310-x86_64-linux-gnu.so"


def judge(kb: KnowledgeBase, failure: LoadFailure, **facts: Any) -> list[Finding]:
    failed = a_failed_load(failure, needs_torch=False, after_torch=False, **facts.pop("changes", {}))
    distribution = facts.pop("distribution", a_distribution("mmcv", "2.1.0"))
    return damaged_library(loader=a_loader(failed), distributions=(distribution,), kb=kb, **facts)


def test_a_file_that_is_cut_off_is_brought_back(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_damaged_file("file too short"))

    assert finding.message == "`mmcv/_ext.cpython-310-x86_64-linux-gnu.so` is cut off"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("python -m pip install --force-reinstall --no-deps --no-cache-dir mmcv==2.1.0",)


@pytest.mark.parametrize("says", ["invalid ELF header", "wrong ELF class: ELFCLASS32"])
def test_a_file_may_be_no_library_at_all(kb: KnowledgeBase, says: str) -> None:
    [finding] = judge(kb, a_damaged_file(says))

    assert finding.message.endswith("is damaged, or no library for this machine")


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("cannot open shared object file: Too many levels of symbolic links", "cannot be opened"),
        ("cannot read file data: Is a directory", "is damaged, or no library for this machine"),
    ],
)
def test_what_is_whole_is_not_called_cut_off(kb: KnowledgeBase, says: str, told: str) -> None:
    [finding] = judge(kb, a_damaged_file(says))

    assert finding.message == f"`mmcv/_ext.cpython-310-x86_64-linux-gnu.so` {told}"


def test_a_file_that_ends_python_is_an_error_also_where_errors_are_caught(kb: KnowledgeBase) -> None:
    # torchvision 0.16.2 beside a _C.so of 1000 bytes: `import torchvision` catches OSError, and dies of SIGBUS.
    library = f"{SITE_PACKAGES}/torchvision/_C.so"
    [finding] = judge(
        kb,
        a_damaged_file(words=BUS_ERROR, file=library),
        changes={"library": library, "distribution": "torchvision", "way": LoadWay.PERHAPS, "import_chain": ()},
        distribution=a_distribution("torchvision", "0.16.2"),
    )

    assert finding.message == "`torchvision/_C.so` is cut off"
    assert [one.value for one in finding.evidence] == [
        "Bus error",
        "Python itself ends at once, without a traceback: no code can catch that",
    ]


def test_git_lfs_fetches_what_it_keeps(kb: KnowledgeBase) -> None:
    code = a_library(library=LIBRARY, unreadable="a Git LFS pointer: the library itself was not downloaded")
    [finding] = judge(
        kb,
        a_damaged_file("invalid ELF header"),
        device_code=(code,),
        distribution=a_distribution("mmcv", "2.1.0", editable_root="/home/user/repo"),
    )

    assert finding.message.endswith("is a pointer of Git LFS, not the library")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("git -C /home/user/repo lfs pull",)


def test_a_part_that_the_wheel_brought_is_gone(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_missing_library("libopenblasp-r0-59ffcd50.3.15.so"))

    assert finding.message == "a part of mmcv 2.1.0 is gone: `libopenblasp-r0-59ffcd50.3.15.so`"


def test_a_build_with_a_tag_is_not_on_the_default_index(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_damaged_file(), distribution=a_distribution("mmcv", "2.1.0+cu118"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()
    assert finding.remedy.summary.endswith("with the index that it came from")


def test_what_pip_did_not_install_is_left_to_its_installer(kb: KnowledgeBase) -> None:
    [finding] = judge(kb, a_damaged_file(), distribution=a_distribution("mmcv", "2.1.0", installer="conda"))

    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_is_silent_where_nothing_imports_it(kb: KnowledgeBase) -> None:
    # debugpy brings libraries for 32 bits as well
    failure = a_damaged_file("wrong ELF class: ELFCLASS32")

    assert not judge(kb, failure, changes={"way": LoadWay.PERHAPS, "import_chain": ()})
