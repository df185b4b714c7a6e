"""GPUs as people, drivers and rental sites spell them."""

import pytest

from envdoctor import kb as knowledge
from envdoctor.errors import UnknownGpuError
from envdoctor.kb import KnowledgeBase

ROWS = knowledge.load().gpus


@pytest.mark.parametrize("spelling", [str, str.lower, str.upper, lambda name: name.replace(" ", "_")])
def test_every_name_of_the_table_is_found_in_any_case(kb: KnowledgeBase, spelling: type[str]) -> None:
    found = {row.name: kb.find_gpu(spelling(row.name)) for row in ROWS}

    assert {name: gpu.name for name, gpu in found.items()} == {row.name: row.name for row in ROWS}
    assert {name: gpu.compute_capability for name, gpu in found.items()} == {r.name: r.compute_capability for r in ROWS}


def test_every_alias_is_found(kb: KnowledgeBase) -> None:
    aliases = {alias: row.name for row in ROWS for alias in row.aliases if alias != "NVIDIA TITAN X"}
    sites = {row.alias.replace("#", "8"): row.gpu for row in kb.gpu_aliases}

    assert {alias: kb.find_gpu(alias).name for alias in aliases | sites} == aliases | sites


@pytest.mark.parametrize(
    ("text", "name", "capability", "memory"),
    [
        ("4090", "NVIDIA GeForce RTX 4090", "8.9", 24),
        ("rtx4090", "NVIDIA GeForce RTX 4090", "8.9", 24),
        ("RTX_4090", "NVIDIA GeForce RTX 4090", "8.9", 24),
        ("rtx 4090 24gb", "NVIDIA GeForce RTX 4090", "8.9", 24),
        ("4090 48GB", "NVIDIA GeForce RTX 4090", "8.9", 48),
        ("GeForce RTX 4090", "NVIDIA GeForce RTX 4090", "8.9", 24),
        ("4090 laptop", "NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", 16),
        ("4090D", "NVIDIA GeForce RTX 4090 D", "8.9", 24),
        ("rtx3090ti", "NVIDIA GeForce RTX 3090 Ti", "8.6", 24),
        ("A6000", "NVIDIA RTX A6000", "8.6", 48),
        ("rtx a6000", "NVIDIA RTX A6000", "8.6", 48),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation", "8.9", 48),
        ("RTX_6000Ada", "NVIDIA RTX 6000 Ada Generation", "8.9", 48),
        ("Quadro RTX 6000", "Quadro RTX 6000", "7.5", 24),
        ("quadro 6000", "Quadro 6000", "2.0", None),
        ("Q_RTX_8000", "Quadro RTX 8000", "7.5", 48),
        ("a100", "NVIDIA A100", "8.0", None),
        ("A100 80GB", "NVIDIA A100", "8.0", 80),
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "8.0", 80),
        ("A100 80GB PCIe", "NVIDIA A100 80GB PCIe", "8.0", 80),
        ("a100_pcie", "a100_pcie", "8.0", None),  # 40 or 80 GB: the name that was given stands for both
        ("h100 sxm", "NVIDIA H100 80GB HBM3", "9.0", 80),
        ("H100_NVL", "NVIDIA H100 NVL", "9.0", 94),
        ("l40s", "NVIDIA L40S", "8.9", 48),
        ("L40", "NVIDIA L40", "8.9", 48),
        ("T4", "Tesla T4", "7.5", 16),
        ("Tesla T4", "Tesla T4", "7.5", 16),
        ("V100", "NVIDIA V100", "7.0", None),
        ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB", "7.0", 16),
        ("rtx pro 6000", "rtx pro 6000", "12.0", 96),
        ("RTX PRO 6000 WS", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0", 96),
        ("5090", "NVIDIA GeForce RTX 5090", "12.0", 32),
        ("gh200", "NVIDIA GH200", "9.0", None),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 480GB", "9.0", 96),
        ("orin", "orin", "8.7", None),
        ("jetson agx orin", "Jetson AGX Orin", "8.7", None),
        ("GB10", "NVIDIA GB10", "12.1", 128),
        ("dgx spark", "NVIDIA GB10", "12.1", 128),
        ("thor", "Jetson T5000", "11.0", None),
        ("3080", "NVIDIA GeForce RTX 3080", "8.6", None),
        ("3080 12GB", "NVIDIA GeForce RTX 3080", "8.6", 12),
        ("3050 A laptop", "NVIDIA GeForce RTX 3050 A Laptop GPU", "8.9", 4),
        ("3050 laptop", "NVIDIA GeForce RTX 3050 Laptop GPU", "8.6", 4),
        ("2080 super max-q", "NVIDIA GeForce RTX 2080 Super with Max-Q Design", "7.5", 8),
        ("GTX TITAN X", "GeForce GTX TITAN X", "5.2", None),
        ("titan rtx", "NVIDIA TITAN RTX", "7.5", 24),
        ("8x A100", "NVIDIA A100", "8.0", None),
        ("gpu_1x_a100_sxm4", "gpu_1x_a100_sxm4", "8.0", None),
        ("gpu_8x_h100_sxm5", "NVIDIA H100 80GB HBM3", "9.0", 80),
        ("gpu_1x_rtx6000", "Quadro RTX 6000", "7.5", 24),
        ("g4dn.xlarge", "Tesla T4", "7.5", 16),
        ("g5", "NVIDIA A10G", "8.6", 24),
        ("p3dn.24xlarge", "Tesla V100-SXM2-32GB", "7.0", 32),
        ("p4d", "NVIDIA A100-SXM4-40GB", "8.0", 40),
        ("nvidia-tesla-t4", "Tesla T4", "7.5", 16),
        ("nvidia-l4", "NVIDIA L4", "8.9", 24),
        ("a2-highgpu-1g", "NVIDIA A100-SXM4-40GB", "8.0", 40),
        ("Standard_NC24ads_A100_v4", "NVIDIA A100 80GB PCIe", "8.0", 80),
        ("sm_86", "sm_86", "8.6", None),
        ("sm86", "sm86", "8.6", None),
        ("compute_86", "compute_86", "8.6", None),
        ("SM_90a", "SM_90a", "9.0", None),
        ("8.6", "8.6", "8.6", None),
    ],
)
def test_a_spelling_is_understood(kb: KnowledgeBase, text: str, name: str, capability: str, memory: int | None) -> None:
    gpu = kb.find_gpu(text)

    assert (gpu.name, str(gpu.compute_capability), gpu.memory_gb) == (name, capability, memory)
    assert gpu.architecture == kb.architecture(gpu.compute_capability)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RTX 6000", ["Quadro RTX 6000 (7.5)", "NVIDIA RTX 6000 Ada Generation (8.9)", "RTX PRO 6000"]),
        ("RTX 4000", ["Quadro RTX 4000 (7.5)", "NVIDIA RTX 4000 Ada Generation (8.9)", "RTX PRO 4000"]),
        ("titan x", ["GeForce GTX TITAN X (5.2)", "TITAN X (Pascal) (6.1)"]),
    ],
)
def test_a_name_of_several_unlike_cards_is_refused_with_their_names(
    kb: KnowledgeBase, text: str, names: list[str]
) -> None:
    with pytest.raises(UnknownGpuError, match="can mean several GPUs") as error:
        kb.find_gpu(text)

    assert [name for name in names if name not in str(error.value)] == []


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("rtx 4909", "NVIDIA GeForce RTX 4090"),
        ("A600", "NVIDIA RTX A6000"),
        ("H10", "NVIDIA H100"),
        ("sm_68", "known are 2.0, 2.1"),
        ("zzz", "as `nvidia-smi` does"),
        ("", "as `nvidia-smi` does"),
        ("rtx", "as `nvidia-smi` does"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(kb: KnowledgeBase, text: str, nearest: str) -> None:
    with pytest.raises(UnknownGpuError) as error:
        kb.find_gpu(text)

    assert nearest in str(error.value)


@pytest.mark.parametrize(("text", "is_geforce"), [("4090", True), ("1080 ti", True), ("a6000", False), ("a100", False)])
def test_consumer_cards_are_told_apart(kb: KnowledgeBase, text: str, *, is_geforce: bool) -> None:
    assert kb.find_gpu(text).is_geforce is is_geforce
