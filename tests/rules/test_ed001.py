"""ED001: a torch whose files and metadata disagree, or that is not the only one."""

from envdoctor.model.loading import Loader
from envdoctor.rules.ed001_doubtful_torch import doubtful_torch
from tests.builders import a_shadowed_module, a_torch
from tests.rules.search_paths import USER, pair, searching

LOADER = Loader(
    library_path=(), preload=(), glibc="2.35", torch=None, torch_process=(), overridden=(), asked=1, failed=()
)


def test_fires_with_all_that_is_odd() -> None:
    problems = (
        "`version.py` cannot be read: No such file or directory",
        "`version.py` says 2.6.0, `torch-2.8.0.dist-info` says 2.8.0",
    )
    [finding] = doubtful_torch(torch=a_torch("2.6.0+cu124", problems=problems))

    assert tuple(evidence.value for evidence in finding.evidence) == problems


def test_fires_at_a_second_torch() -> None:
    [finding] = doubtful_torch(torch=a_torch(rivals=("/other/torch",)))

    assert "a second torch lies in `/other/torch`" in finding.evidence[0].value


def test_leaves_a_second_torch_to_the_rule_that_names_both_versions() -> None:
    torch = a_torch(rivals=("/opt/env/lib/python3.10/site-packages/torch",))

    environment = searching((USER, "user site"))

    assert not doubtful_torch(
        torch=torch, distributions=pair(USER, "torch", "1.13.1", "2.0.1"), environment=environment
    )
    assert not doubtful_torch(torch=torch, shadowed_modules=(a_shadowed_module("torch"),))
    assert doubtful_torch(torch=torch, distributions=pair(USER, "torch", "2.0.1", "2.0.1"), environment=environment)


def test_leaves_damaged_libraries_to_the_loader_where_it_was_emulated() -> None:
    torch = a_torch(library_problems=("`libtorch_cuda.so`: the file ends before byte 64",))

    assert doubtful_torch(torch=torch)
    assert not doubtful_torch(torch=torch, loader=LOADER)


def test_is_silent_about_a_torch_that_is_whole() -> None:
    assert not doubtful_torch(torch=a_torch("2.8.0+cu128"))
