"""ED122: every GPU hidden."""

import pytest

from envdoctor.model.facts import Gpu
from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed122_hidden_gpus import hidden_gpus
from tests.builders import a_gpu, a_named_gpu, a_torch, variables


@pytest.mark.parametrize("setting", ["", "-1", "-1,0", "NoDevFiles"])
def test_fires_when_nothing_is_left(setting: str) -> None:
    [finding] = hidden_gpus(gpus=(a_gpu(),), variables=variables(CUDA_VISIBLE_DEVICES=setting), torch=a_torch())

    assert f"CUDA_VISIBLE_DEVICES='{setting}'" in finding.message
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset CUDA_VISIBLE_DEVICES",)


@pytest.mark.parametrize(
    ("gpus", "environment"),
    [
        ((a_gpu(),), {}),
        ((a_gpu(),), {"CUDA_VISIBLE_DEVICES": "0"}),
        ((a_gpu(),), {"CUDA_VISIBLE_DEVICES": "0,-1"}),
        ((a_gpu(),), {"CUDA_VISIBLE_DEVICES": "7"}),  # ED112
        ((), {"CUDA_VISIBLE_DEVICES": ""}),
        ((a_named_gpu(),), {"CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_is_silent_when_something_is_left_or_nothing_was_there(
    gpus: tuple[Gpu, ...], environment: dict[str, str]
) -> None:
    assert not hidden_gpus(gpus=gpus, variables=variables(**environment))


def test_has_nothing_to_judge_for_a_torch_without_cuda() -> None:
    setting = variables(CUDA_VISIBLE_DEVICES="")
    [conclusion] = hidden_gpus.check(gpus=(a_gpu(),), variables=setting, torch=a_torch("2.6.0+cpu"))

    assert isinstance(conclusion, NotApplicable)
