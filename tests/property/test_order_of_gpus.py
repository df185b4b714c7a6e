"""Law: what is said about GPUs does not depend on the order in which the facts list them."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from envdoctor import api
from envdoctor.model.facts import ComputeMode, Gpu, GpuProcess, Unavailable
from envdoctor.model.finding import Finding
from tests.builders import a_driver, a_gpu, a_gpu_health, healthy_facts, variables

NAMES = {"NVIDIA GeForce RTX 4090": "8.9", "NVIDIA GeForce RTX 3090": "8.6"}
STATES = [
    a_gpu_health(),
    a_gpu_health(pcie_width=4, power_limit=250.0),
    a_gpu_health(compute_mode=ComputeMode.PROHIBITED),
    a_gpu_health(compute_mode=ComputeMode.EXCLUSIVE_PROCESS, processes=(GpuProcess(pid=7, used_memory=1),)),
    a_gpu_health(mig_enabled=True, mig_instances=(), free_memory=1),
    a_gpu_health(ecc_uncorrected=2, clock_event_reasons=("HW_SLOWDOWN",)),
    a_gpu_health(compute_mode=Unavailable("GPU is lost")),
]


@st.composite
def machines(draw: st.DrawFn) -> tuple[Gpu, ...]:
    count = draw(st.integers(1, 4))
    kinds = [(draw(st.sampled_from(sorted(NAMES))), draw(st.sampled_from(STATES))) for _ in range(count)]
    return tuple(
        a_gpu(
            NAMES[name],
            index=index,
            name=name,
            uuid=f"GPU-{index}",
            pci_bus_id=f"00000000:0{index}:00.0",
            health=health,
        )
        for index, (name, health) in enumerate(kinds)
    )


def said(gpus: tuple[Gpu, ...], setting: str) -> list[Finding]:
    facts = healthy_facts(gpus=gpus, driver=a_driver("535.161.07"), variables=variables(CUDA_VISIBLE_DEVICES=setting))
    report = api.judge(facts)
    return [
        replace(finding, gpus=tuple(sorted(finding.gpus)), evidence=tuple(sorted(finding.evidence, key=str)))
        for outcome in report.failed()
        for finding in sorted(outcome.findings, key=str)
    ]


@given(machines(), st.sampled_from(["0", "1,0", "0,1,2,3", "GPU-1,GPU-0", "-1", "9"]), st.randoms())
def test_shuffling_gpus_changes_nothing(gpus: tuple[Gpu, ...], setting: str, random: Random) -> None:
    shuffled = list(gpus)
    random.shuffle(shuffled)

    assert said(tuple(shuffled), setting) == said(gpus, setting)
