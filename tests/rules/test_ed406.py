from typing import Any

import pytest

from envdoctor.model.facts import Distribution
from envdoctor.model.finding import Finding
from envdoctor.rules.ed406_older_nvidia_library import older_nvidia_library
from tests.builders import a_distribution, a_loader, a_torch, an_environment, an_extension_of_another_torch

TORCH = a_torch("2.5.1+cu124")
WITH_CUDA = "; sys_platform == 'linux' and extra == 'with-cuda'"


def findings_with(*installed: Distribution, **facts: Any) -> list[Finding]:
    return older_nvidia_library(distributions=installed, environment=an_environment(), **facts)


def a_torch_with(*requires: str) -> Distribution:
    return a_distribution("torch", "2.5.1", metadata_path=TORCH.distribution, requires=requires)


def cudnn(version: str) -> Distribution:
    return a_distribution("nvidia-cudnn-cu12", version)


def test_fires_when_a_framework_wants_a_newer_cudnn() -> None:
    jax = a_distribution("jax-cuda12-plugin", "0.10.2", requires=(f"nvidia-cudnn-cu12<10.0,>=9.8{WITH_CUDA}",))
    torch = a_torch_with("nvidia-cudnn-cu12==9.1.0.70")
    [finding] = findings_with(jax, torch, cudnn("9.1.0.70"), torch=TORCH)

    assert finding.message == "too old for jax-cuda12-plugin: nvidia-cudnn-cu12 9.1.0.70 (9.8 or newer)"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/opt/env/bin/python -m pip install --no-deps 'nvidia-cudnn-cu12>=9.8,<10'",)


def test_fires_when_torch_brings_an_older_cudnn() -> None:
    """https://github.com/jax-ml/jax/issues/18032."""
    torch = a_torch("2.1.2+cu118", cudnn_version="8.7.0")
    jaxlib = a_distribution("jaxlib", "0.4.23+cuda12.cudnn88")
    [finding] = findings_with(a_distribution("torch", "2.1.2+cu118"), jaxlib, torch=torch)

    assert finding.message == "too old for jaxlib: torch's cuDNN 8.7.0 (8.8 or newer)"
    assert finding.evidence[0].value == "0.4.23+cuda12.cudnn88"
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_tells_of_each_framework_once() -> None:
    jax = a_distribution(
        "jax-cuda12-plugin",
        "0.10.2",
        requires=(f"nvidia-cudnn-cu12<10.0,>=9.8{WITH_CUDA}", f"nvidia-cublas-cu12>=12.5{WITH_CUDA}"),
    )
    tensorflow = a_distribution("tensorflow", "2.18.0", requires=("nvidia-cudnn-cu12==9.3.0.75; extra == 'and-cuda'",))
    found = findings_with(tensorflow, jax, cudnn("9.1.0.70"), a_distribution("nvidia-cublas-cu12", "12.4.5.8"))

    assert [finding.message.partition(": ")[2] for finding in found] == [
        "nvidia-cublas-cu12 12.4.5.8 (12.5 or newer) and nvidia-cudnn-cu12 9.1.0.70 (9.8 or newer)",
        "nvidia-cudnn-cu12 9.1.0.70 (9.3 or newer)",
    ]


def test_takes_what_an_extra_pins_for_a_choice() -> None:
    pinned = ("nvidia-cublas-cu12==12.5.3.2; extra == 'and-cuda'", "nvidia-nccl-cu12==2.23.4; extra == 'and-cuda'")
    tensorflow = a_distribution("tensorflow", "2.18.0", requires=pinned)
    installed = (a_distribution("nvidia-cublas-cu12", "12.4.5.8"), a_distribution("nvidia-nccl-cu12", "2.21.5"))

    assert not findings_with(tensorflow, *installed)


def test_is_silent_about_what_the_interpreter_does_not_see() -> None:
    hidden = a_distribution("jaxlib", "0.4.23+cuda12.cudnn89", shadowed_by="/x")

    assert not findings_with(hidden, cudnn("8.8.1.3"))


def test_fires_for_torch_itself() -> None:
    torch = a_torch_with("nvidia-nccl-cu12==2.21.5; platform_system == 'Linux'")

    assert findings_with(torch, a_distribution("nvidia-nccl-cu12", "2.18.1"), torch=TORCH)


@pytest.mark.parametrize(
    ("requirement", "installed"),
    [
        ("nvidia-cudnn-cu12==8.9.4.25", "8.9.2.26"),  # patches do not count
        ("nvidia-cudnn-cu12==9.1.0.70", "9.8.0.87"),  # newer ones serve the older
        ("nvidia-cudnn-cu12==9.1.0.70", "8.9.2.26"),  # another file name: the loader tells
        ("nvidia-cudnn-cu12>=9.8; sys_platform == 'win32'", "9.1.0.70"),
        ("nvidia-cudnn-cu12!=9.8", "9.1.0.70"),
        ("nvidia-cudnn-cu12", "9.1.0.70"),
        ("nvidia-cudnn-cu12>=9.8.*", "9.1.0.70"),  # invalid
        ("nvidia-cudnn-cu12>=9.8; extra = 'x'", "9.1.0.70"),  # invalid
        ("nvidia-cudnn-cu13>=9.8", "9.1.0.70"),
        ("nvidia-cudnn-cu12>=9.8", "x"),
    ],
)
def test_is_silent_otherwise(requirement: str, installed: str) -> None:
    assert not findings_with(a_distribution("x", "1.0", requires=(requirement,)), cudnn(installed))


def test_is_silent_about_torch_where_the_loader_refuses_it() -> None:
    torch = a_torch_with("nvidia-nccl-cu12==2.21.5")
    installed = (torch, a_distribution("nvidia-nccl-cu12", "2.18.1"))

    assert findings_with(*installed, torch=TORCH, loader=a_loader())
    assert not findings_with(
        *installed, torch=TORCH, loader=a_loader(torch=an_extension_of_another_torch("torch").failure)
    )


def test_is_silent_about_the_cudnn_of_a_torch_that_uses_the_wheel() -> None:
    torch = a_torch("2.5.1+cu124", cudnn_version="9.1.0.70")
    jax = a_distribution("jax-cuda12-plugin", "0.10.2", requires=(f"nvidia-cudnn-cu12>=9.8{WITH_CUDA}",))

    assert not findings_with(a_torch_with("nvidia-cudnn-cu12==9.1.0.70"), jax, cudnn("9.8.0.87"), torch=torch)
