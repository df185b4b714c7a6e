"""Transcripts of NVML that end anywhere, or hold what no NVML says."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.codec import from_json, to_json
from envdoctor.model.facts import Gpu, GpuHealth, Unavailable
from envdoctor.probes import nvml_child
from envdoctor.probes.nvml import Inquiry
from envdoctor.probes.nvml_answer import NvmlAnswer, Transcript, read_answer
from tests.fake_nvml.machine import A_4090, AN_A100, FakeMachine, Install

SLICED = dataclasses.replace(AN_A100, mig_mode=1, mig_instance=("MIG-1 10737418240 A100 MIG 1g.10gb",))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def records(fake_nvml: Install) -> bytes:
    """What the child writes about a machine with a sliced A100 and a 4090."""
    bindings = find_spec("pynvml")
    assert bindings
    assert bindings.origin
    command = [sys.executable, "-I", "-S", nvml_child.__file__, str(Path(bindings.origin).parent)]
    driver = fake_nvml(FakeMachine(gpus=(SLICED, A_4090)))
    return subprocess.run(command, env=os.environ | driver, capture_output=True, check=True).stdout


def test_the_whole_transcript_leaves_nothing_unasked(records: bytes) -> None:
    answer = read_answer(Transcript.parse(records, "the end"))

    assert "the end" not in json.dumps(to_json(answer))
    assert "was not asked" not in json.dumps(to_json(answer))


@given(place=st.floats(0, 1, exclude_max=True))
def test_a_transcript_may_end_anywhere(records: bytes, place: float) -> None:
    whole = read_answer(Transcript.parse(records, ""))

    cut = read_answer(Transcript.parse(records[: int(len(records) * place)], "the end"))

    # What was told before stands, and what was not has the reason.
    assert from_json(NvmlAnswer, to_json(cut)) == cut
    assert cut.driver_release in {whole.driver_release, *unavailable(cut.driver_release)}
    assert cut == whole or "the end" in json.dumps(to_json(cut))
    if isinstance(cut.gpus, tuple):
        assert [gpu.index for gpu in cut.gpus] == [0, 1]
        assert {gpu.name for gpu in cut.gpus} <= {SLICED.name, A_4090.name, "unknown GPU"}


def gpus_of(records: bytes) -> tuple[Gpu, ...]:
    answer = read_answer(Transcript.parse(records, ""))
    assert isinstance(answer.gpus, tuple)
    return answer.gpus


def changed_facts(now: Gpu | GpuHealth, before: Gpu | GpuHealth) -> list[str]:
    return [fact.name for fact in dataclasses.fields(now) if getattr(now, fact.name) != getattr(before, fact.name)]


def unavailable(fact: object) -> tuple[object, ...]:
    return (fact,) if isinstance(fact, Unavailable) else ()


@given(value=anything, data=st.data())
def test_a_value_of_another_shape_costs_its_own_fact_alone(records: bytes, value: object, data: st.DataObject) -> None:
    lines = records.splitlines(keepends=True)
    about_gpu_1 = re.compile(rb'\["nvmlDeviceGet(?!Handle)\w+",1\]\n')
    questions = [place for place, line in enumerate(lines) if about_gpu_1.fullmatch(line)]
    place = data.draw(st.sampled_from(questions))
    lines[place + 1] = json.dumps({"value": value}).encode() + b"\n"

    first, second = gpus_of(b"".join(lines))

    first_before, second_before = gpus_of(records)
    assert first == first_before
    assert len(changed_facts(second, second_before)) <= 2
    if second.health and second_before.health:
        assert len(changed_facts(second.health, second_before.health)) <= 2


def test_an_inquiry_that_could_not_start_says_why() -> None:
    answer = Inquiry(None, "no more processes").finish()

    reason = Unavailable("NVML was not asked: no more processes")
    assert (answer.session, answer.gpus, answer.peer_access) == (reason,) * 3
