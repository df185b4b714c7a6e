import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Companion, CudaCheck, Distribution, TorchFlavour
from envdoctor.model.finding import Finding
from envdoctor.model.loading import Loader
from envdoctor.rules.ed403_companion_of_another_flavour import companion_of_another_flavour
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
    torch: str, companion: Companion, *beside: Distribution, kb: KnowledgeBase, loader: Loader | None = None
) -> list[Finding]:
    return companion_of_another_flavour(
        torch=a_torch(torch),
        companions=(companion,),
        kb=kb,
        environment=an_environment(),
        distributions=beside,
        loader=loader,
    )


def test_fires_for_a_cpu_build_beside_cuda(kb: KnowledgeBase) -> None:
    [finding] = findings_with("2.1.2+cu121", a_companion("torchvision", "0.16.2+cpu"), kb=kb)

    assert finding.message == "torchvision 0.16.2+cpu is a CPU build beside torch 2.1.2+cu121, built for CUDA 12.1"


def test_fires_for_cuda_beside_a_cpu_build(kb: KnowledgeBase) -> None:
    """https://github.com/open-mmlab/PIA/issues/30."""
    xformers = a_companion("xformers", "0.0.23.post1", cuda="12.1", flavour=TorchFlavour.CUDA)
    [finding] = findings_with("2.1.2+cpu", xformers, kb=kb)

    assert finding.message == "xformers 0.0.23.post1 is built for CUDA 12.1 beside torch 2.1.2+cpu, a CPU build"
    assert finding.evidence[1].value == "2.1.2+cpu, cuda = None"


def test_fires_for_another_major_of_cuda(kb: KnowledgeBase) -> None:
    scatter = a_companion("torch-scatter", "2.1.2+pt21cu118", cuda="11.8", flavour=TorchFlavour.CUDA)
    [finding] = findings_with("2.1.2+cu121", scatter, a_distribution("torch-scatter", "2.1.2+pt21cu118"), kb=kb)

    assert finding.message == (
        "torch-scatter 2.1.2+pt21cu118 is built for CUDA 11.8 beside torch 2.1.2+cu121, built for CUDA 12.1"
    )
    assert finding.remedy is not None
    assert "torch-scatter==2.1.2" in finding.remedy.commands[0]


def test_fires_where_the_code_refuses_another_minor(kb: KnowledgeBase) -> None:
    torchvision = a_companion("torchvision", "0.15.2+cu118", cuda_check=CudaCheck.MINOR)

    assert findings_with("2.0.1+cu117", torchvision, kb=kb)


def test_knows_the_unmarked_wheels_of_the_default_index(kb: KnowledgeBase) -> None:
    """https://github.com/zylo117/Yet-Another-EfficientDet-Pytorch/issues/696."""
    torchvision = a_companion("torchvision", "0.5.0", cuda_check=CudaCheck.MINOR)
    [finding] = findings_with("1.4.0+cu92", torchvision, a_distribution("torchvision", "0.5.0"), kb=kb)

    assert finding.message == ("torchvision 0.5.0 is built for CUDA 10.1 beside torch 1.4.0+cu92, built for CUDA 9.2")
    assert finding.evidence[0].source == "release of torchvision for torch 1.4.0 on the default index"


def test_does_not_guess_on_other_machines(kb: KnowledgeBase) -> None:
    found = companion_of_another_flavour(
        torch=a_torch("1.10.0+cu114"),
        companions=(a_companion("torchvision", "0.11.0"),),
        kb=kb,
        environment=an_environment(platform="linux-aarch64"),
        distributions=(a_distribution("torchvision", "0.11.0"),),
    )

    assert not found


@pytest.mark.parametrize("installer", ["conda", ""])
def test_does_not_guess_where_pip_did_not_install(kb: KnowledgeBase, installer: str) -> None:
    distribution = a_distribution("torchvision", "0.5.0", installer=installer)

    assert not findings_with("1.4.0+cu92", a_companion("torchvision", "0.5.0"), distribution, kb=kb)


@pytest.mark.parametrize(
    ("torch", "companion"),
    [
        ("2.1.2+cu121", a_companion("torchvision", "0.16.2+cu121")),
        ("2.1.2+cpu", a_companion("torchvision", "0.16.2+cpu")),
        ("2.5.1+cu124", a_companion("torchvision", "0.20.1+cu121", cuda_check=CudaCheck.MAJOR)),
        ("2.4.1+cu121", a_companion("flash-attn", "2.6.3", cuda="12.3", flavour=TorchFlavour.CUDA)),
        ("2.6.0+cu126", a_companion("flash-attn", "2.7.4.post1", cuda="12", flavour=TorchFlavour.CUDA)),
        ("2.1.0+rocm5.6", a_companion("torchvision", "0.16.0", flavour=TorchFlavour.ROCM)),
        ("2.1.0a0+32f93b1", a_companion("torchvision", "0.16.0a0")),
        ("1.9.1+cu111", a_companion("torchaudio", "0.9.1")),  # one build served them all
    ],
)
def test_is_silent_about_what_goes_together(kb: KnowledgeBase, torch: str, companion: Companion) -> None:
    distribution = a_distribution(companion.distribution, companion.version)

    assert not findings_with(torch, companion, distribution, kb=kb)


def test_others_speak_where_the_loader_or_the_code_refuses_it(kb: KnowledgeBase) -> None:
    torchvision = a_companion("torchvision", "0.16.0+cu118", cuda_check=CudaCheck.MAJOR)
    refused = a_loader(an_extension_of_another_torch("torchvision"))
    broken_torch = a_loader(torch=an_extension_of_another_torch("torch").failure)

    assert findings_with("2.1.0+cu121", torchvision, kb=kb)
    assert findings_with("2.1.0+cu121", torchvision, kb=kb, loader=broken_torch)
    assert not findings_with("2.1.0+cu121", torchvision, kb=kb, loader=a_loader())
    assert not findings_with("2.1.0+cu121", torchvision, kb=kb, loader=refused)


def test_speaks_where_what_the_loader_refuses_does_no_harm(kb: KnowledgeBase) -> None:
    unused = an_extension_of_another_torch("torchvision", library=f"{SITE_PACKAGES}/torchvision/video_reader.so")
    torchvision = a_companion("torchvision", "0.16.2+cpu")

    assert findings_with("2.1.2+cu121", torchvision, kb=kb, loader=a_loader(unused))
