"""ED114: MIG mode without a slice."""

import pytest

from envdoctor.model.facts import Absence, Gpu, MigInstance, Unavailable
from envdoctor.model.finding import Undecided
from envdoctor.rules.ed114_mig_without_instances import mig_without_instances
from tests.builders import a_gpu, a_gpu_health

SLICE = MigInstance(uuid="MIG-c7384736-a75d-5afc-978f-d2f1294409fd", name="3g.40gb", total_memory=40 << 30)


def an_a100(enabled: bool | Unavailable, instances: tuple[MigInstance, ...] | Unavailable, index: int = 0) -> Gpu:
    health = a_gpu_health(mig_enabled=enabled, mig_instances=instances)
    return a_gpu("8.0", index=index, name="NVIDIA A100-SXM4-80GB", health=health)


def test_fires_and_names_equal_gpus_together() -> None:
    [finding] = mig_without_instances(gpus=(an_a100(True, ()), an_a100(True, (), 1), an_a100(True, (SLICE,), 2)))

    assert finding.gpus == (0, 1)
    assert finding.remedy is not None
    assert finding.remedy.commands == ("sudo nvidia-smi mig -i 0,1 -cgi 0 -C",)


@pytest.mark.parametrize(
    "gpu",
    [
        an_a100(False, ()),
        an_a100(True, (SLICE,)),
        an_a100(Unavailable("Not Supported", Absence.NOT_APPLICABLE), ()),
    ],
)
def test_is_silent_when_the_gpu_can_be_used(gpu: Gpu) -> None:
    assert not list(mig_without_instances.check(gpus=(gpu,)))


@pytest.mark.parametrize("gpu", [an_a100(True, Unavailable("no permission")), an_a100(Unavailable("GPU is lost"), ())])
def test_leaves_what_nvml_did_not_tell_undecided(gpu: Gpu) -> None:
    [conclusion] = mig_without_instances.check(gpus=(gpu,))

    assert isinstance(conclusion, Undecided)
