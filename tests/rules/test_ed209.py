from dataclasses import replace

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Unavailable
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed209_extension_without_cuda_part import extension_without_cuda_part
from tests.builders import a_cpu_only_extension, a_distribution, a_gpu, a_torch


def test_fires_with_what_is_missing_and_how_it_is_known(kb: KnowledgeBase) -> None:
    # https://github.com/open-mmlab/mmcv/issues/1142: built in docker, where no GPU is visible
    extension = a_cpu_only_extension(distribution="mmcv-full")
    [finding] = extension_without_cuda_part(
        cpu_only_extensions=(extension,),
        gpus=(a_gpu("8.6"),),
        torch=a_torch("1.10.2+cu113", "sm_70 sm_80 sm_86"),
        distributions=(a_distribution("mmcv-full", "1.3.7"),),
        kb=kb,
    )

    assert finding.message == "mmcv-full was built without its CUDA part: it lacks device code"
    assert finding.evidence[0].value == extension.evidence
    assert finding.remedy is not None
    assert "FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=8.6" in finding.remedy.commands[0]
    assert finding.remedy.commands[0].endswith("--no-binary mmcv-full mmcv-full==1.3.7")


def test_leaves_the_way_to_build_missing_modules_to_the_project(kb: KnowledgeBase) -> None:
    # https://github.com/NVIDIA/apex/issues/1755; what the default index calls apex is something else
    missing = [
        a_cpu_only_extension(distribution="apex", expected=f"module `{module}`", library="/site-packages/apex")
        for module in ("amp_C", "fused_layer_norm_cuda")
    ]
    [finding] = extension_without_cuda_part(
        cpu_only_extensions=tuple(missing),
        gpus=(a_gpu(),),
        torch=a_torch(),
        distributions=(a_distribution("apex", "0.1"),),
        kb=kb,
    )

    assert finding.message.endswith("it lacks module `amp_C`, module `fused_layer_norm_cuda`")
    assert finding.remedy is not None
    assert finding.remedy.summary.endswith("a plain `pip install` leaves its CUDA modules out")
    assert finding.remedy.commands == ()


def test_forces_the_modules_that_a_build_leaves_out_where_it_sees_no_gpu(kb: KnowledgeBase) -> None:
    missing = a_cpu_only_extension(distribution="torch-scatter", expected="module `torch_scatter._scatter_cuda`")
    [finding] = extension_without_cuda_part(
        cpu_only_extensions=(missing,),
        gpus=(a_gpu("8.6"),),
        torch=a_torch("2.1.2+cu121"),
        distributions=(a_distribution("torch-scatter", "2.1.2"),),
        kb=kb,
    )

    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=8.6 ")


def test_gives_one_finding_to_each_distribution(kb: KnowledgeBase) -> None:
    extensions = tuple(a_cpu_only_extension(distribution=name) for name in ("mmcv", "detectron2", "mmcv"))
    findings = extension_without_cuda_part(cpu_only_extensions=extensions, gpus=(a_gpu(),), kb=kb)

    assert [finding.message.split()[0] for finding in findings] == ["detectron2", "mmcv"]


def test_is_silent_when_everything_has_its_cuda_part(kb: KnowledgeBase) -> None:
    assert list(extension_without_cuda_part.check(cpu_only_extensions=(), gpus=(a_gpu(),), kb=kb)) == []


def test_has_nothing_to_judge_without_gpu(kb: KnowledgeBase) -> None:
    conclusions = extension_without_cuda_part.check(cpu_only_extensions=(a_cpu_only_extension(),), gpus=(), kb=kb)

    assert list(conclusions) == [NotApplicable("no GPU is visible")]


def test_offers_no_command_when_no_capability_is_known(kb: KnowledgeBase) -> None:
    gpu = replace(a_gpu(), compute_capability=Unavailable("not told"))
    [finding] = extension_without_cuda_part(cpu_only_extensions=(a_cpu_only_extension(),), gpus=(gpu,), kb=kb)

    assert finding.remedy is not None
    assert finding.remedy.commands == ()
