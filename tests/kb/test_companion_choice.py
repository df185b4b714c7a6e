"""How to install what belongs to the torch that is there."""

from dataclasses import replace
from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.companion_choice import CompanionWish, companion_remedy
from envdoctor.model.facts import Distribution, MetadataKind, SearchEntry, Unavailable
from envdoctor.model.finding import Remedy
from tests.builders import a_distribution, a_torch, an_environment

PIP = "/opt/env/bin/python -m pip install"
INDEX = "--index-url https://download.pytorch.org/whl"


def remedy_for(name: str, torch: str, *beside: Distribution, kb: KnowledgeBase, **changes: Any) -> Remedy:
    wish = CompanionWish(torch=a_torch(torch, **changes), environment=an_environment(), distributions=beside)
    return companion_remedy(name, wish, kb)


@pytest.mark.parametrize(
    ("torch", "metadata", "installed", "command"),
    [
        # the default index: metadata without local version, and torch is not downloaded again
        ("2.14.1+cu130", "2.14.1", "0.23.0", f"torch==2.14.1 torchvision==0.29.1+cu130 {INDEX}/cu130"),
        ("2.1.2+cu121", "2.1.2+cu121", "0.15.2", f"torch==2.1.2+cu121 torchvision==0.16.2+cu121 {INDEX}/cu121"),
        # another build of the right version
        ("2.1.2+cpu", "2.1.2+cpu", "0.16.2", f"torch==2.1.2+cpu torchvision==0.16.2+cpu {INDEX}/cpu"),
        (
            "1.4.0+cu92",
            "1.4.0+cu92",
            "0.5.0",
            "torch==1.4.0+cu92 torchvision==0.5.0+cu92 --find-links https://download.pytorch.org/whl/torch_stable.html",
        ),
    ],
)
def test_names_torch_and_its_companion_in_one_command(
    kb: KnowledgeBase, torch: str, metadata: str, installed: str, command: str
) -> None:
    beside = (a_distribution("torch", metadata), a_distribution("torchvision", installed))

    assert remedy_for("torchvision", torch, *beside, kb=kb).commands == (f"{PIP} {command}",)


def test_replaces_every_companion_that_is_there(kb: KnowledgeBase) -> None:
    beside = (
        a_distribution("torch", "2.0.1"),
        a_distribution("torchvision", "0.14.1"),
        a_distribution("torchaudio", "0.13.1"),
        a_distribution("torchtext", "0.14.1"),
    )
    remedy = remedy_for("torchaudio", "2.0.1+cu117", *beside, kb=kb)

    assert remedy.summary == (
        "install what belongs to torch 2.0.1+cu117, from one index: torchvision 0.15.2, torchaudio 2.0.2 and torchtext "
        "0.15.2"
    )
    assert remedy.commands == (
        f"{PIP} torch==2.0.1 torchvision==0.15.2+cu117 torchaudio==2.0.2+cu117 torchtext==0.15.2 {INDEX}/cu117",
    )


@pytest.mark.parametrize(
    ("torch", "command"),
    [
        ("2.14.1+cu130", f"torch==2.14.1+cu130 torchaudio==2.11.0+cu130 {INDEX}/cu130"),
        ("2.13.0+cpu", f"torch==2.13.0+cpu torchaudio==2.11.0+cpu {INDEX}/cpu"),
    ],
)
def test_names_an_older_one_that_fits_later_releases(kb: KnowledgeBase, torch: str, command: str) -> None:
    beside = (a_distribution("torch", torch), a_distribution("torchaudio", "2.10.0"))

    assert remedy_for("torchaudio", torch, *beside, kb=kb).commands == (f"{PIP} {command}",)


def test_makes_pip_replace_another_build_of_one_version(kb: KnowledgeBase) -> None:
    beside = (a_distribution("torch", "1.12.1+cu116"), a_distribution("torchaudio", "0.12.1"))
    remedy = remedy_for("torchaudio", "1.12.1+cu116", *beside, kb=kb)
    [command] = remedy.commands

    assert command == (
        f"{PIP} --force-reinstall --no-deps torchaudio==0.12.1 --extra-index-url https://download.pytorch.org/whl/cu116"
    )


@pytest.mark.parametrize(
    ("torch", "command"),
    [
        ("2.1.2+cu118", f"xformers==0.0.23.post1 {INDEX}/cu118"),
        ("2.1.2+cu121", "xformers==0.0.23.post1"),
        ("2.0.1+cu118", "xformers==0.0.22"),
        ("2.14.1+cu130", f"xformers==0.0.35 {INDEX}/cu130"),
        ("2.10.0+cu128", "xformers==0.0.35"),
    ],
)
def test_names_the_xformers_that_was_built_for_a_torch(kb: KnowledgeBase, torch: str, command: str) -> None:
    remedy = remedy_for("xformers", torch, a_distribution("xformers", "0.0.20"), kb=kb)

    assert remedy.commands == (f"{PIP} --force-reinstall --no-deps {command}",)


@pytest.mark.parametrize(
    ("python", "options"), [((3, 10, 13), ""), ((3, 11, 7), "--no-build-isolation --no-cache-dir ")]
)
def test_xformers_is_compiled_with_cuda_where_there_is_no_wheel(
    kb: KnowledgeBase, python: tuple[int, int, int], options: str
) -> None:
    """A plain installation would compile it for the CPU, without a word."""
    environment = an_environment(python_version=python)
    wish = CompanionWish(torch=a_torch("1.13.1+cu117"), environment=environment, distributions=())
    [command] = companion_remedy("xformers", wish, kb).commands

    assert command.startswith("FORCE_CUDA=1 ") == bool(options)
    assert f" {options}--no-deps --force-reinstall" in command or not options
    assert command.endswith("xformers==0.0.16")


def test_xformers_needs_torch_with_cuda(kb: KnowledgeBase) -> None:
    remedy = remedy_for("xformers", "2.1.2+cpu", a_distribution("xformers", "0.0.23.post1"), kb=kb)

    assert remedy.commands == (f"{PIP} torch==2.1.2+cu121 {INDEX}/cu121",)


def test_builds_anew_what_pip_has_as_source(kb: KnowledgeBase) -> None:
    remedy = remedy_for("torch-scatter", "2.0.1+cu117", a_distribution("torch-scatter", "2.1.1+pt113cu117"), kb=kb)
    [command] = remedy.commands

    assert command == (
        f"FORCE_CUDA=1 {PIP} --no-build-isolation --no-cache-dir --no-deps --force-reinstall "
        "--no-binary torch-scatter torch-scatter==2.1.1"
    )


@pytest.mark.parametrize(
    "installed",
    [
        a_distribution("flash-attn", "2.6.3", metadata_kind=MetadataKind.EGG_LINK),
        replace(a_distribution("flash-attn"), version=Unavailable("no METADATA")),
        a_distribution("einops", "0.8.0"),
    ],
)
def test_builds_nothing_anew_that_it_does_not_know(kb: KnowledgeBase, installed: Distribution) -> None:
    assert remedy_for("flash-attn", "2.4.1+cu121", installed, kb=kb).commands == ()


@pytest.mark.parametrize(
    ("name", "torch", "changes"),
    [
        ("torchvision", "2.1.2", {"installed_by": "conda"}),
        ("torchvision", "2.1.0a0+32f93b1", {}),  # NGC
        ("torchaudio", "2.15.0+cu132", {}),  # none is known for it
        ("torchtext", "2.13.0+cu130", {}),
        ("xformers", "1.9.0+cu111", {}),
        ("detectron2", "2.0.1+cu117", {}),
        ("torchvision", "2.1.2+rocm5.6", {}),
    ],
)
def test_gives_no_command_that_is_not_known_to_work(
    kb: KnowledgeBase, name: str, torch: str, changes: dict[str, Any]
) -> None:
    remedy = remedy_for(name, torch, a_distribution(name, "1.0"), kb=kb, **changes)

    assert name in remedy.summary
    assert remedy.commands == ()


def test_is_not_chosen_for_a_torch_that_only_pythonpath_brings(kb: KnowledgeBase) -> None:
    folder = "/srv/old/lib/python3.8/site-packages"
    path = (SearchEntry(path=folder, origin="PYTHONPATH"), *an_environment().search_path)
    wish = CompanionWish(
        torch=a_torch("1.9.1+cu102", root=f"{folder}/torch"),
        environment=an_environment(search_path=path),
        distributions=(a_distribution("torch", "2.8.0", shadowed_by=f"{folder}/torch-1.9.1.dist-info"),),
    )
    remedy = companion_remedy("xformers", wish, kb)

    assert remedy.summary.endswith("the environment's own torch 2.8.0 comes to light; check it then")
    assert remedy.commands == ("unset PYTHONPATH",)
