"""ED021: no `torch._C` for this Python."""

from envdoctor.model.facts import PathSource, SearchEntry
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed021_torch_without_extension import torch_without_extension
from tests.builders import a_torch, an_environment

ONLY_ANOTHER = "there is only `_C.cpython-35m-x86_64-linux-gnu.so`"


def test_fires_at_the_module_of_another_python() -> None:
    """https://github.com/pytorch/pytorch/issues/574"""
    [finding] = torch_without_extension(
        torch=a_torch("2.6.0+cu124", missing_extension=ONLY_ANOTHER), environment=an_environment()
    )

    assert finding.message.endswith("has no extension module `torch._C` for Python 3.10")
    assert [one.value for one in finding.evidence] == [
        ONLY_ANOTHER,
        ".cpython-310-x86_64-linux-gnu.so, .abi3.so, .so",
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("/opt/env/bin/python -m pip install --force-reinstall --no-deps torch")


def test_a_torch_of_pythonpath_is_kept_out_and_not_reinstalled() -> None:
    # For Python 3.10 there is no torch 1.9.1, and what pip installs comes behind PYTHONPATH.
    folder = "/srv/old/lib/python3.8/site-packages"
    path = (SearchEntry(path=folder, origin="PYTHONPATH"), *an_environment().search_path)
    torch = a_torch("1.9.1+cu102", missing_extension=ONLY_ANOTHER, root=f"{folder}/torch")
    [finding] = torch_without_extension(torch=torch, environment=an_environment(search_path=path))

    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset PYTHONPATH",)


def test_fires_where_there_is_none_at_all() -> None:
    [finding] = torch_without_extension(torch=a_torch(missing_extension="there is none"))

    assert finding.message.endswith("for this Python")


def test_cannot_tell_where_the_endings_were_guessed() -> None:
    [conclusion] = torch_without_extension.check(
        torch=a_torch(missing_extension=ONLY_ANOTHER), environment=an_environment(path_source=PathSource.FILES)
    )

    assert isinstance(conclusion, Undecided)


def test_is_silent_where_the_interpreter_finds_it() -> None:
    assert not torch_without_extension(torch=a_torch())


def test_leaves_what_is_no_package_to_the_rule_about_it() -> None:
    torch = a_torch(has_init=False, missing_extension="there is none")
    [conclusion] = torch_without_extension.check(torch=torch)

    assert isinstance(conclusion, NotApplicable)
