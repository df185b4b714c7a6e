from typing import Any

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Companion, Distribution
from envdoctor.model.finding import Finding
from envdoctor.rules.ed401_mismatched_companion import mismatched_companion
from tests.builders import (
    SITE_PACKAGES,
    a_companion,
    a_distribution,
    a_loader,
    a_torch,
    an_environment,
    an_extension_of_another_torch,
)


def findings_with(
    torch: str, *beside: Distribution, kb: KnowledgeBase, companions: tuple[Companion, ...] = (), **facts: Any
) -> list[Finding]:
    build = a_torch(torch, installed_by=facts.pop("installed_by", "pip"))
    return mismatched_companion(
        torch=build, distributions=beside, companions=companions, kb=kb, environment=an_environment(), **facts
    )


def a_torchvision(version: str, *requires: str, **changes: Any) -> Distribution:
    return a_distribution("torchvision", version, requires=("numpy", *requires), **changes)


def test_fires_when_metadata_name_another_torch(kb: KnowledgeBase) -> None:
    """https://github.com/pytorch/vision/issues/9174."""
    [finding] = findings_with("2.6.0+cu124", a_torchvision("0.23.0", "torch==2.8.0"), kb=kb)

    assert finding.message == "torchvision 0.23.0 is made for torch 2.8.0, and torch 2.6.0+cu124 is installed"
    assert finding.evidence[0].source == "torchvision-0.23.0.dist-info"
    assert finding.evidence[0].value == "Requires-Dist: torch==2.8.0"
    assert finding.remedy is not None
    assert "torchvision==0.21.0+cu124 --index-url https://download.pytorch.org/whl/cu124" in finding.remedy.commands[0]


@pytest.mark.parametrize(
    ("torch", "requirement"),
    [
        ("2.1.2+cu118", "torch (==2.1.1)"),  # a patch is another interface, too
        ("1.8.1+cu111", "torch (==1.8.0)"),
        ("2.1.0.dev20230801+cu121", "torch==2.1.0.dev20230905"),
        ("2.13.0+cu130", "torch==2.14.*"),
        ("2.14.1+cu130", "torch==2.8.0; platform_system == 'Linux'"),
    ],
)
def test_fires_for_every_other_version(kb: KnowledgeBase, torch: str, requirement: str) -> None:
    assert findings_with(torch, a_torchvision("1.0", requirement), kb=kb)


@pytest.mark.parametrize(
    ("torch", "requirement"),
    [
        ("2.1.2+cu121", "torch==2.1.2"),
        ("2.1.2+cpu", "torch==2.1.2"),
        ("2.1.2+rocm5.6", "torch (==2.1.2)"),
        ("1.11.0a0+17540c5", "torch==1.11.0a0+17540c5"),  # NGC
        ("2.1.0a0+32f93b1", "torch==2.1.0"),
        ("2.3.1.post100", "torch==2.3.1"),  # conda-forge
        ("2.1.0.dev20230801+cu121", "torch==2.1.0.dev20230801"),
        ("2.14.1+cu130", "torch>=2.14"),
        ("2.14.1+cu130", "torch==1.0; extra == 'test'"),
        ("2.14.1+cu130", "torch==1.0; python_version < '3.8'"),
        ("2.14.1+cu130", "torch==1.0; sys_platform == 'win32'"),
        ("2.14.1+cu130", "torch-geometric==1.0"),
        ("2.14.1+cu130", "torch>=1.9.*"),  # what pip accepted before 24.1
        ("my-own-build", "torch==2.1.2"),
    ],
)
def test_is_silent_when_metadata_are_met(kb: KnowledgeBase, torch: str, requirement: str) -> None:
    assert not findings_with(torch, a_torchvision("9.9", requirement), kb=kb)


def test_takes_ranges_from_what_is_compiled_against_torch_alone(kb: KnowledgeBase) -> None:
    xformers = a_distribution("xformers", "0.0.35", requires=("torch>=2.10",))
    app = a_distribution("facenet-pytorch", "2.6.0", requires=("torch<2.3.0,>=2.2.0",))
    built = a_companion("xformers", "0.0.35", torch_release="2.10.0")

    [finding] = findings_with("2.9.1+cu128", xformers, app, companions=(built,), kb=kb)

    assert finding.message == "xformers 0.0.35 asks for torch>=2.10, and torch 2.9.1+cu128 is installed"
    assert not findings_with("2.14.1+cu130", xformers, app, companions=(built,), kb=kb)


def test_fires_for_any_package_that_names_one_version(kb: KnowledgeBase) -> None:
    vllm = a_distribution("vllm", "0.6.6.post1", requires=("torch==2.5.1", "torchvision==0.20.1"))
    [finding] = findings_with("2.6.0+cu124", vllm, kb=kb)

    assert finding.message.startswith("vllm 0.6.6.post1 is made for torch 2.5.1")
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


# --- marks of wheels ---------------------------------------------------------------------------------------------


def test_fires_when_the_wheel_is_marked_for_another_torch(kb: KnowledgeBase) -> None:
    """https://github.com/InternLM/InternLM/issues/109."""
    scatter = a_distribution("torch-scatter", "2.1.1+pt113cu117")
    marked = a_companion("torch-scatter", "2.1.1+pt113cu117", source="torch_scatter.dist-info", torch_release="1.13")
    [finding] = findings_with("2.0.0+cu117", scatter, companions=(marked,), kb=kb)

    assert finding.message == (
        "torch-scatter 2.1.1+pt113cu117 is made for torch 1.13, and torch 2.0.0+cu117 is installed"
    )
    assert finding.remedy is not None
    assert "--no-binary torch-scatter torch-scatter==2.1.1" in finding.remedy.commands[0]


@pytest.mark.parametrize(
    ("torch", "release"),
    [("2.4.1+cu121", "2.4"), ("2.4.1+cu121", "2.4.1"), ("2.10.0+cu128", "2.10"), ("2.4.0a0+gitd990dad", "2.4")],
)
def test_a_mark_names_a_minor_or_a_patch(kb: KnowledgeBase, torch: str, release: str) -> None:
    flash = a_distribution("flash-attn", "2.7.4.post1", requires=("torch", "einops"))
    marked = a_companion("flash-attn", "2.7.4.post1+cu12torch2.4", torch_release=release)

    assert not findings_with(torch, flash, companions=(marked,), kb=kb)


@pytest.mark.parametrize(("torch", "release"), [("2.4.1+cu121", "2.4.0"), ("2.1.2+cu121", "2.10"), ("2.10.0", "2.1")])
def test_a_mark_of_another_release_is_told_apart(kb: KnowledgeBase, torch: str, release: str) -> None:
    marked = a_companion("flash-attn", "2.7.4.post1", torch_release=release)

    assert findings_with(torch, a_distribution("flash-attn"), companions=(marked,), kb=kb)


def test_two_signs_for_one_package_are_one_finding(kb: KnowledgeBase) -> None:
    """https://github.com/AUTOMATIC1111/stable-diffusion-webui/issues/11395."""
    xformers = a_distribution("xformers", "0.0.19", requires=("numpy", "torch==2.0.0"))
    built = a_companion("xformers", "0.0.19", source="xformers/cpp_lib.json", torch_release="2.0.0", cuda="11.8")
    [finding] = findings_with("1.13.1+cu117", xformers, companions=(built,), kb=kb)

    assert finding.remedy is not None
    assert "xformers==0.0.16" in finding.remedy.commands[0]


# --- releases without either -------------------------------------------------------------------------------------


def test_knows_what_was_released_together(kb: KnowledgeBase) -> None:
    [finding] = findings_with("1.4.0", a_torchvision("0.3.0", "torch>=1.1.0"), kb=kb)

    assert finding.message == "torchvision 0.3.0 was released with torch 1.1.0, and torch 1.4.0 is installed"


@pytest.mark.parametrize(
    ("torch", "name", "version"),
    [
        ("1.1.0", "torchvision", "0.3.0"),
        ("1.4.0", "torchvision", "0.2.2"),  # Python alone
        ("2.13.0+cu130", "torchaudio", "2.11.0"),  # stable ABI
        ("2.13.0+cu130", "torchvision", "0.28.0a0+my"),
        ("2.13.0+cu130", "torchtext", "0.6.0"),
    ],
)
def test_is_silent_about_releases_that_go_together(kb: KnowledgeBase, torch: str, name: str, version: str) -> None:
    assert not findings_with(torch, a_distribution(name, version, requires=("torch",)), kb=kb)


# --- triton ------------------------------------------------------------------------------------------------------


def torch_with(requirement: str, **changes: Any) -> Distribution:
    path = f"{a_torch('2.5.1+cu124').distribution}"
    return a_distribution("torch", "2.5.1", metadata_path=path, requires=("filelock", requirement), **changes)


def test_fires_when_triton_is_not_the_one_of_torch(kb: KnowledgeBase) -> None:
    requirement = 'triton==3.1.0; platform_system == "Linux" and platform_machine == "x86_64"'
    [finding] = findings_with("2.5.1+cu124", torch_with(requirement), a_distribution("triton", "3.2.0"), kb=kb)

    assert finding.message == "torch 2.5.1+cu124 is made for triton 3.1.0, and triton 3.2.0 is installed"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/opt/env/bin/python -m pip install triton==3.1.0",)


@pytest.mark.parametrize(
    ("requirement", "triton", "version"),
    [
        ("triton==3.1.0", "triton", "3.1.0"),
        ("triton==3.1.0", "pytorch-triton", "3.0.0"),
        ("pytorch-triton==3.0.0+45fff310c8", "pytorch-triton", "3.0.0+45fff310c8"),
        ("triton==3.1.0; platform_machine == 'aarch64'", "triton", "2.0.0"),
        ("triton>=3", "triton", "2.0.0"),
        ("triton==3.1.0", "triton", "x"),
    ],
)
def test_is_silent_about_the_triton_of_torch(kb: KnowledgeBase, requirement: str, triton: str, version: str) -> None:
    assert not findings_with("2.5.1+cu124", torch_with(requirement), a_distribution(triton, version), kb=kb)


def test_leaves_the_triton_of_conda_alone(kb: KnowledgeBase) -> None:
    torch = torch_with("triton==3.1.0", installer="conda")

    assert not findings_with("2.5.1+cu124", torch, a_distribution("triton", "3.2.0"), kb=kb)


# --- who has the word --------------------------------------------------------------------------------------------


def test_is_silent_where_the_loader_refuses_it(kb: KnowledgeBase) -> None:
    loader = a_loader(an_extension_of_another_torch("torchvision"))
    torchvision = a_torchvision("0.23.0", "torch==2.8.0")

    assert not findings_with("2.6.0+cu124", torchvision, loader=loader, kb=kb)
    assert findings_with("2.6.0+cu124", torchvision, loader=a_loader(an_extension_of_another_torch("mmcv")), kb=kb)


def test_speaks_where_what_the_loader_refuses_does_no_harm(kb: KnowledgeBase) -> None:
    unused = an_extension_of_another_torch("torchvision", library=f"{SITE_PACKAGES}/torchvision/video_reader.so")
    torchvision = a_torchvision("0.23.0", "torch==2.8.0")

    assert findings_with("2.6.0+cu124", torchvision, loader=a_loader(unused), kb=kb)


def test_is_silent_about_what_the_interpreter_does_not_see(kb: KnowledgeBase) -> None:
    assert not findings_with("2.6.0", a_torchvision("0.23.0", "torch==2.8.0", shadowed_by="/x"), kb=kb)
