from dataclasses import replace

import pytest

from envdoctor.model.facts import DeviceCode, Unavailable
from envdoctor.model.finding import Finding, NotApplicable
from envdoctor.rules.ed216_missing_cuda_variant import missing_cuda_variant
from tests.builders import SITE_PACKAGES, a_distribution, a_gpu, a_library, a_torch, variables


def libraries_for(numbers: str) -> tuple[DeviceCode, ...]:
    return tuple(
        a_library(
            "sm_80",
            library=f"{SITE_PACKAGES}/bitsandbytes/libbitsandbytes_cuda{number}.so",
            distribution="bitsandbytes",
        )
        for number in numbers.split()
    )


def findings_with(numbers: str, *, torch: str, version: str, variable: str = "") -> list[Finding]:
    return missing_cuda_variant(
        torch=a_torch(torch),
        device_code=libraries_for(numbers),
        distributions=(a_distribution("bitsandbytes", version),),
        gpus=(a_gpu(),),
        variables=variables(BNB_CUDA_VERSION=variable) if variable else (),
    )


def test_fires_when_no_library_is_for_the_cuda_of_torch() -> None:
    """https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1056."""
    [finding] = findings_with("112", torch="2.1.2+cu121", version="0.41.0")

    assert finding.message == (
        "bitsandbytes 0.41.0 has no library for CUDA 12.1, which torch 2.1.2+cu121 was built with: importing it fails"
    )
    assert finding.evidence[-1].value == "for CUDA 11.2"

    assert finding.remedy is not None
    assert finding.remedy.commands == ()  # the runtime of CUDA 11 is not here


def test_says_what_goes_on_without_its_library() -> None:
    # bitsandbytes/cextension.py: from 0.43 on it is a warning
    [finding] = findings_with("121", torch="2.7.1+cu128", version="0.43.0")

    assert finding.message.endswith(": its GPU functions fail")


def test_offers_a_library_of_the_same_major_version() -> None:
    [finding] = findings_with("118 126 128", torch="2.10.0+cu129", version="0.45.5")

    assert finding.remedy is not None
    assert finding.remedy.commands == ("export BNB_CUDA_VERSION=128",)


def test_tells_a_build_for_the_cpu() -> None:
    [finding] = findings_with("", torch="2.1.2+cu121", version="0.41.0")

    assert finding.evidence[-1].value == "none for CUDA"


def test_names_the_variable_that_asks_for_another() -> None:
    [finding] = findings_with("118 121", torch="2.1.2+cu121", version="0.43.0", variable="126")

    assert "has no library for CUDA 12.6, which BNB_CUDA_VERSION asks for" in finding.message
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset BNB_CUDA_VERSION",)


@pytest.mark.parametrize(
    ("numbers", "torch", "version", "variable"),
    [
        # https://github.com/bitsandbytes-foundation/bitsandbytes/issues/838: the library is there
        ("110 117 118 120 121", "2.1.0+cu118", "0.41.1", ""),
        ("118_nocublaslt 118", "2.1.0+cu118", "0.41.1", ""),
        ("118 121", "2.1.0+cu118", "0.43.0", "121"),
        ("118 126 128", "2.10.0+cu129", "0.50.0", ""),  # takes 12.8 instead
        ("128 130", "2.6.0+cu124", "0.50.0", ""),  # takes 12.8 instead
    ],
)
def test_is_silent_when_a_library_is_loaded(numbers: str, torch: str, version: str, variable: str) -> None:
    assert not findings_with(numbers, torch=torch, version=version, variable=variable)


@pytest.mark.parametrize(
    ("numbers", "torch", "version", "variable"),
    [("118 126", "2.9.0+cu130", "0.50.0", ""), ("118 126", "2.10.0+cu129", "0.50.0", "129")],
)
def test_fires_where_nothing_takes_its_place(numbers: str, torch: str, version: str, variable: str) -> None:
    assert findings_with(numbers, torch=torch, version=version, variable=variable)


@pytest.mark.parametrize("torch", ["2.6.0+cpu", "2.6.0+rocm6.2"])
def test_has_nothing_to_judge_beside_a_torch_without_cuda(torch: str) -> None:
    [conclusion] = missing_cuda_variant.check(
        torch=a_torch(torch),
        device_code=libraries_for("112"),
        distributions=(a_distribution("bitsandbytes", "0.41.0"),),
        gpus=(a_gpu(),),
    )

    assert isinstance(conclusion, NotApplicable)


def test_has_nothing_to_judge_without_gpu_or_without_bitsandbytes() -> None:
    torch, code = a_torch("2.1.2+cu121"), libraries_for("112")
    installed = (a_distribution("bitsandbytes", "0.41.0"),)
    old = (replace(installed[0], version="0.37.2"),)  # goes by the libcudart that it finds
    odd = (replace(installed[0], version="main-abc"),)
    broken = (replace(installed[0], version=Unavailable("no METADATA")),)
    conclusions = [
        *missing_cuda_variant.check(torch=torch, device_code=code, distributions=installed, gpus=()),
        *missing_cuda_variant.check(torch=torch, device_code=code, distributions=(), gpus=(a_gpu(),)),
    ]
    for unknown in (old, odd, broken):
        conclusions += missing_cuda_variant.check(torch=torch, device_code=code, distributions=unknown, gpus=(a_gpu(),))

    assert [type(one) for one in conclusions] == [NotApplicable] * 5
