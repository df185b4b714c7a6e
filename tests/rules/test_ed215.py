import pytest

from envdoctor.rules.ed215_cached_extension_of_other_torch import cached_extension_of_other_torch
from tests.builders import SITE_PACKAGES, a_jit_extension, a_torch


def test_fires_when_the_headers_were_those_of_another_torch() -> None:
    # https://github.com/rosinality/stylegan2-pytorch/issues/5
    extension = a_jit_extension(torch_include="/opt/old/lib/python3.10/site-packages/torch/include")
    [finding] = cached_extension_of_other_torch(jit_extensions=(extension,), torch=a_torch())

    assert finding.message == "what torch keeps compiled of `fused` was built against another torch"
    assert [one.value for one in finding.evidence] == [extension.torch_include, f"{SITE_PACKAGES}/torch/include"]
    assert finding.remedy is not None
    assert finding.remedy.commands == ("rm -r /home/user/.cache/torch_extensions/py310_cu124/fused",)


@pytest.mark.parametrize(
    "include",
    [
        f"{SITE_PACKAGES}/torch/include",
        f"{SITE_PACKAGES}/torch/include/",
        f"{SITE_PACKAGES.replace('/lib/', '/lib64/')}/torch/include",
        "",  # build.ninja is gone
    ],
)
def test_is_silent_when_the_headers_were_those_of_this_torch(include: str) -> None:
    extension = a_jit_extension(torch_include=include)

    assert cached_extension_of_other_torch(jit_extensions=(extension,), torch=a_torch()) == []


def test_is_silent_when_there_is_no_library() -> None:
    extension = a_jit_extension(library="", torch_include="/elsewhere/torch/include")

    assert cached_extension_of_other_torch(jit_extensions=(extension,), torch=a_torch()) == []
