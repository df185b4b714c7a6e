"""What metadata demand of others, and whether it applies."""

import re

import pytest

from envdoctor.model.facts import Unavailable
from envdoctor.model.requirements import find_demands, read_demand
from tests.builders import an_environment

PYTHON_38 = an_environment(python_version=(3, 8, 18))
WINDOWS = an_environment(platform="win-amd64")
BARE = an_environment(python_version=Unavailable("no interpreter"))


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("torch", "torch"),
        ("torch==2.8.0", "torch==2.8.0"),
        ("torch (==2.1.2)", "torch==2.1.2"),
        ("torch >= 2.0 , < 3", "torch<3,>=2.0"),
        ("torch[opt]>=2", "torch>=2"),
        ("triton==3.1.0; platform_system == 'Linux' and platform_machine == 'x86_64'", "triton==3.1.0"),
        ("typing-extensions; python_version < '3.9'", "typing-extensions"),
    ],
)
def test_what_applies_is_read(text: str, demand: str) -> None:
    assert str(read_demand(text, PYTHON_38)) == demand


@pytest.mark.parametrize(
    "text",
    [
        "torch==2.8.0; python_version >= '3.9'",
        "torch==2.8.0; sys_platform == 'win32'",
        "torch==2.8.0; platform_machine == 'aarch64'",
        "torch==2.8.0; extra == 'dev'",
    ],
)
def test_what_does_not_apply_is_no_demand(text: str) -> None:
    assert read_demand(text, PYTHON_38) is None


@pytest.mark.parametrize("extra", ["with-cuda", "x"])
def test_an_extra_may_have_been_asked_for(extra: str) -> None:
    text = f"nvidia-cudnn-cu12>=9.8; extra == '{extra}' and sys_platform == 'linux'"

    assert str(read_demand(text, PYTHON_38, with_extras=True)) == "nvidia-cudnn-cu12>=9.8"
    assert read_demand(text.replace("linux", "win32"), PYTHON_38, with_extras=True) is None


@pytest.mark.parametrize(
    "text", ["", "torch ==", "torch>=1.9.*", "torch @", "torch; os_nam == 'x'", "==1", "torch (", "\0"]
)
def test_what_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_demand(text, PYTHON_38)


@pytest.mark.parametrize(
    ("version", "is_met"), [("2.1.2", True), ("2.1.2+cu121", True), ("2.1.2.post1", False), ("2.1.2a0+x", False)]
)
def test_local_versions_satisfy_what_names_none(version: str, *, is_met: bool) -> None:
    demand = read_demand("torch==2.1.2", None)

    assert demand is not None
    assert demand.is_exact
    assert demand.is_met(version) == is_met


def test_of_a_machine_of_another_kind_little_is_known() -> None:
    assert read_demand("torch==2.8.0; python_version >= '2.7'", WINDOWS) is not None
    assert read_demand("torch==2.8.0; python_version >= '2.7'", BARE) is not None


def test_what_cannot_be_read_is_passed_over() -> None:
    found = find_demands(("numpy", "torch==1.0", "torch>=1.9.*", "torch<3"), re.compile("torch"), None)

    assert list(map(str, found)) == ["torch==1.0", "torch<3"]
