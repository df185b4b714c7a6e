"""The builds of torch as rules ask for them."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_builds import TorchBuildRow
from envdoctor.model.arch import format_arch_list


def build(kb: KnowledgeBase, version: str, tag: str, platform: str = "linux_x86_64") -> TorchBuildRow:
    [row] = [r for r in kb.torch_builds() if (r.version, r.tag, r.platform) == (version, tag, platform)]
    return row


# What was read out of wheels of the default index.
@pytest.mark.parametrize(
    ("version", "tag", "arch_list"),
    [
        ("1.0.1", "cu90", "sm_35 sm_50 sm_60 sm_70 compute_50"),
        ("1.4.0", "cu101", "sm_37 sm_50 sm_60 sm_61 sm_70 sm_75 compute_37"),
        ("1.7.1", "cu102", "sm_37 sm_50 sm_60 sm_70 sm_75"),
        ("1.10.2", "cu102", "sm_37 sm_50 sm_60 sm_70"),
        ("1.13.1", "cu117", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"),
        ("2.1.2", "cu121", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"),
        ("2.4.1", "cu121", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"),
        ("2.8.0", "cu128", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        ("2.14.1", "cu130", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
    ],
)
def test_the_default_build_has_the_arch_list_of_its_wheel(
    kb: KnowledgeBase, version: str, tag: str, arch_list: str
) -> None:
    row = build(kb, version, tag)

    assert (format_arch_list(row.arch_list), row.on_pypi, row.uncertain) == (arch_list, True, False)


# The commands of pytorch.org for previous versions.
@pytest.mark.parametrize(
    ("version", "tag", "command"),
    [
        ("1.7.1", "cu110", "torch==1.7.1+cu110 --find-links https://download.pytorch.org/whl/torch_stable.html"),
        ("1.7.1", "cu102", "torch==1.7.1"),
        ("1.8.2", "cu111", "torch==1.8.2 --extra-index-url https://download.pytorch.org/whl/lts/1.8/cu111"),
        ("1.10.1", "cu111", "torch==1.10.1+cu111 --find-links https://download.pytorch.org/whl/torch_stable.html"),
        ("1.12.1", "cu113", "torch==1.12.1+cu113 --extra-index-url https://download.pytorch.org/whl/cu113"),
        ("1.13.1", "cu117", "torch==1.13.1+cu117 --extra-index-url https://download.pytorch.org/whl/cu117"),
        ("2.0.1", "cu118", "torch==2.0.1+cu118 --index-url https://download.pytorch.org/whl/cu118"),
    ],
)
def test_a_build_says_how_pip_installs_it(kb: KnowledgeBase, version: str, tag: str, command: str) -> None:
    row = build(kb, version, tag)

    assert f"{row.requirement} {row.index_option}".strip() == command


@pytest.mark.parametrize(
    ("version", "tag", "requirements"),
    [
        ("1.12.1", "cu113", ["torchvision==0.13.1+cu113", "torchaudio==0.12.1", "torchtext==0.13.1"]),
        ("2.0.1", "cu118", ["torchvision==0.15.2+cu118", "torchaudio==2.0.2+cu118", "torchtext==0.15.2"]),
        ("1.6.0", "cu102", ["torchvision==0.7.0", "torchaudio==0.6.0"]),
    ],
)
def test_companions_are_asked_for_in_the_build_that_fits(
    kb: KnowledgeBase, version: str, tag: str, requirements: list[str]
) -> None:
    row = build(kb, version, tag)
    companions = kb.companions(version)

    assert [row.companion_requirement(*pair) for pair in companions.items()] == requirements


def test_a_build_with_another_abi_than_its_release_says_so(kb: KnowledgeBase) -> None:
    old, new = build(kb, "2.6.0", "cu124"), build(kb, "2.6.0", "cu126")

    assert (old.cxx11_abi, old.glibc_min) == (False, "2.17")
    assert (new.cxx11_abi, new.glibc_min) == (True, "2.28")


def test_an_arm_build_has_wheels_and_architectures_of_its_own(kb: KnowledgeBase) -> None:
    row = build(kb, "2.13.0", "cu130", "linux_aarch64")

    assert format_arch_list(row.arch_list) == "sm_80 sm_90 sm_100 sm_110 sm_120"
    assert row.on_pypi
    assert "cp312" in row.pythons


@pytest.mark.parametrize("version", ["1.13.1", "1.13.1+cu117"])
def test_a_release_is_found_with_and_without_local_version(kb: KnowledgeBase, version: str) -> None:
    release = kb.torch_release(version)

    assert release
    assert (release.version, str(release.default_cuda)) == ("1.13.1", "11.7")


def test_a_release_that_never_was_is_not_found(kb: KnowledgeBase) -> None:
    assert kb.torch_release("1.13.7") is None
    assert kb.companions("1.13.7") == {}
