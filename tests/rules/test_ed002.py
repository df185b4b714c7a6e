"""ED002: a folder `torch` without `__init__.py`."""

from envdoctor.rules.ed002_torch_without_init import torch_without_init
from tests.builders import SITE_PACKAGES, a_torch, an_environment


def test_fires_at_a_namespace_package() -> None:
    [finding] = torch_without_init(torch=a_torch("2.0.1+cu118", has_init=False), environment=an_environment())

    assert finding.remedy is not None
    remove, install = finding.remedy.commands
    assert remove == f"rm -r {SITE_PACKAGES}/torch"
    assert install.startswith("/opt/env/bin/python -m pip install --force-reinstall --no-deps torch==2.0.1+cu118 ")
    assert install.endswith(" --index-url https://download.pytorch.org/whl/cu118")


def test_names_no_version_where_none_is_known() -> None:
    [finding] = torch_without_init(torch=a_torch("", has_init=False))

    assert finding.remedy is not None
    assert finding.remedy.commands[1] == "python -m pip install --force-reinstall --no-deps torch"


def test_is_silent_about_a_package() -> None:
    assert not torch_without_init(torch=a_torch())
