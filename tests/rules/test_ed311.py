import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import Variable
from envdoctor.model.finding import Finding
from envdoctor.model.loading import BUS_ERROR, LoadFailure, LoadWay
from envdoctor.rules.ed311_skipped_extension import skipped_extension
from tests.builders import (
    SITE_PACKAGES,
    a_damaged_file,
    a_distribution,
    a_failed_load,
    a_loader,
    a_missing_library,
    a_missing_symbol,
    a_torch,
)

SYMBOL = "_ZN2at4_ops5zeros4callEv"


def judge(
    kb: KnowledgeBase, name: str, version: str, failure: LoadFailure, *paths: str, torch: str = "1.13.1+cu117"
) -> list[Finding]:
    failed = [
        a_failed_load(
            failure, library=f"{SITE_PACKAGES}/{path}", distribution=name, way=LoadWay.PERHAPS, import_chain=()
        )
        for path in paths
    ]
    distributions = (a_distribution(name, version), a_distribution("torch", torch))
    return skipped_extension(loader=a_loader(*failed), torch=a_torch(torch), distributions=distributions, kb=kb)


def test_xformers_for_another_torch_only_warns(kb: KnowledgeBase) -> None:
    # https://github.com/AUTOMATIC1111/stable-diffusion-webui/issues/11395
    [finding] = judge(kb, "xformers", "0.0.20", a_missing_symbol(SYMBOL), "xformers/_C.so")

    assert finding.message.startswith("xformers 0.0.20 was built for ")
    assert finding.message.endswith("; it goes on without its compiled part")
    assert "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions" in [one.value for one in finding.evidence]
    assert finding.remedy is not None


@pytest.mark.parametrize(
    ("name", "version", "path"),
    [
        ("torchvision", "0.14.1", "torchvision/_C.so"),
        ("vllm", "0.4.0", "vllm/_C.abi3.so"),
        ("detectron2", "0.6", "detectron2/_C.cpython-310-x86_64-linux-gnu.so"),
        ("apex", "0.1", "amp_C.cpython-310-x86_64-linux-gnu.so"),
    ],
)
def test_others_do_likewise(kb: KnowledgeBase, name: str, version: str, path: str) -> None:
    assert judge(kb, name, version, a_missing_symbol(SYMBOL), path)


def test_no_package_goes_on_where_python_is_ended(kb: KnowledgeBase) -> None:
    ended = a_damaged_file(words=BUS_ERROR, file=f"{SITE_PACKAGES}/torchvision/_C.so")

    assert not judge(kb, "torchvision", "0.14.1", ended, "torchvision/_C.so")


def test_libraries_of_one_package_are_one_finding(kb: KnowledgeBase) -> None:
    paths = ("torchvision/_C.so", "torchvision/image.so")

    assert len(judge(kb, "torchvision", "0.14.1", a_missing_library("libcudart.so.12"), *paths)) == 1


def test_is_silent_about_what_ends_the_import(kb: KnowledgeBase) -> None:
    assert not judge(kb, "torchvision", "0.23.0", a_missing_symbol(SYMBOL), "torchvision/_C.so")


def test_is_silent_about_what_is_optional(kb: KnowledgeBase) -> None:
    failure = a_missing_library("libavcodec.so.58")

    assert not judge(kb, "torchvision", "0.14.1", failure, "torchvision/video_reader.so")


def judge_bitsandbytes(kb: KnowledgeBase, version: str, *variables: Variable) -> list[Finding]:
    failed = a_failed_load(
        a_missing_library("libcudart.so.11.0"),
        library=f"{SITE_PACKAGES}/bitsandbytes/libbitsandbytes_cuda118.so",
        distribution="bitsandbytes",
        needs_torch=False,
        way=LoadWay.PERHAPS,
        import_chain=(),
    )
    return skipped_extension(
        loader=a_loader(failed),
        torch=a_torch("2.1.2+cu121"),
        distributions=(a_distribution("bitsandbytes", version),),
        variables=variables,
        kb=kb,
    )


def test_bitsandbytes_that_is_told_what_to_load_is_to_choose_itself(kb: KnowledgeBase) -> None:
    [finding] = judge_bitsandbytes(kb, "0.45.5", Variable(name="BNB_CUDA_VERSION", value="118"))

    assert ("environment", "BNB_CUDA_VERSION=118") in [(one.source, one.value) for one in finding.evidence]
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset BNB_CUDA_VERSION",)


@pytest.mark.parametrize(
    ("version", "what_follows"),
    [
        ("0.42.0", "; importing it fails where there is a GPU"),
        ("0.43.0", "; it goes on without its compiled part"),
    ],
)
def test_bitsandbytes_goes_on_since_a_release_only(kb: KnowledgeBase, version: str, what_follows: str) -> None:
    [finding] = judge_bitsandbytes(kb, version)

    assert finding.message.endswith(what_follows)
