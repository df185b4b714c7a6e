import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, LibraryRole
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed210_cached_extension_for_other_gpu import cached_extension_for_other_gpu
from tests.builders import a_gpu, a_jit_extension, a_library

FUSED = a_jit_extension("sm_75")


def code_of(arch_list: str, library: str = FUSED.library, *, unreadable: str = "") -> DeviceCode:
    return a_library(arch_list, library=library, distribution="", role=LibraryRole.JIT, unreadable=unreadable)


@pytest.mark.parametrize(
    ("arch_list", "what"),
    [
        ("sm_75", "has no code"),
        ("sm_75 compute_75", "has only PTX"),  # https://github.com/NVIDIA/flashdreams/pull/216: four times slower
    ],
)
def test_fires_when_a_library_has_no_machine_code(arch_list: str, what: str, kb: KnowledgeBase) -> None:
    [finding] = cached_extension_for_other_gpu(
        jit_extensions=(FUSED,), device_code=(code_of(arch_list),), gpus=(a_gpu("8.9"),), kb=kb
    )

    assert finding.message == f"what torch keeps compiled of `fused` {what} for GPU 0 (NVIDIA GeForce RTX 4090)"
    assert finding.remedy is not None
    assert finding.remedy.commands == ("rm -r /home/user/.cache/torch_extensions/py310_cu124/fused",)


@pytest.mark.parametrize("arch_list", ["sm_89", "sm_86 compute_86", "sm_80"])
def test_is_silent_when_machine_code_runs(arch_list: str, kb: KnowledgeBase) -> None:
    assert not cached_extension_for_other_gpu(
        jit_extensions=(FUSED,), device_code=(code_of(arch_list),), gpus=(a_gpu("8.9"),), kb=kb
    )


def test_gives_one_finding_to_several_extensions(kb: KnowledgeBase) -> None:
    other = a_jit_extension(name="upfirdn2d", library="/cache/upfirdn2d/upfirdn2d.so", folder="/cache/upfirdn2d")
    [finding] = cached_extension_for_other_gpu(
        jit_extensions=(FUSED, other),
        device_code=(code_of("sm_75"), code_of("sm_75 compute_75", other.library)),
        gpus=(a_gpu("8.9"),),
        kb=kb,
    )

    assert "`upfirdn2d`, `fused` has no code" in finding.message


def test_is_silent_about_extensions_without_device_code(kb: KnowledgeBase) -> None:
    assert not cached_extension_for_other_gpu(
        jit_extensions=(FUSED,), device_code=(a_library("sm_75"),), gpus=(a_gpu("8.9"),), kb=kb
    )


def test_leaves_open_what_cannot_be_read(kb: KnowledgeBase) -> None:
    [undecided] = cached_extension_for_other_gpu.check(
        jit_extensions=(FUSED,), device_code=(code_of("sm_75", unreadable="truncated"),), gpus=(a_gpu("8.9"),), kb=kb
    )

    assert isinstance(undecided, Undecided)


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    conclusions = cached_extension_for_other_gpu.check(
        jit_extensions=(FUSED,), device_code=(code_of("sm_75"),), gpus=(), kb=kb
    )

    assert list(conclusions) == [NotApplicable("no GPU is visible")]
