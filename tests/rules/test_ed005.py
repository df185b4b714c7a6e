"""ED005: the torch of the user site."""

import pytest

from envdoctor.model.finding import NotApplicable
from envdoctor.rules.ed005_torch_of_user_site import torch_of_user_site
from tests.builders import a_torch
from tests.rules.search_paths import USER, searching

BORROWED = a_torch("1.13.1+cu117", root=f"{USER}/torch")


@pytest.mark.parametrize("kind", ["conda", "venv"])
def test_fires_where_the_environment_has_none(kind: str) -> None:
    """https://github.com/PKU-YuanGroup/Open-Sora-Plan/issues/39"""
    [finding] = torch_of_user_site(environment=searching((USER, "user site"), kind=kind), torch=BORROWED)

    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "export PYTHONNOUSERSITE=1",
        "/opt/env/bin/python -m pip install torch==1.13.1+cu117 --index-url https://download.pytorch.org/whl/cu117",
    )


def test_is_silent_about_the_environments_own() -> None:
    assert not torch_of_user_site(environment=searching((USER, "user site")), torch=a_torch())


def test_leaves_two_torches_to_other_rules() -> None:
    torch = a_torch(root=f"{USER}/torch", rivals=("/opt/env/lib/python3.10/site-packages/torch",))

    assert not torch_of_user_site(environment=searching((USER, "user site")), torch=torch)


def test_a_system_is_meant_to_search_the_user_site() -> None:
    [conclusion] = torch_of_user_site.check(environment=searching((USER, "user site"), kind="system"), torch=BORROWED)

    assert isinstance(conclusion, NotApplicable)
