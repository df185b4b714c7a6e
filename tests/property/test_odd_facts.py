"""Facts of another hand: what stands in the place of a value is refused with its path, or judged without a crash."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor import api, render
from envdoctor.model.codec import CodecError
from envdoctor.model.facts import Facts
from envdoctor.model.facts_file import dump_facts, load_facts
from envdoctor.model.finding import Report, Status
from envdoctor.render import RenderOptions
from tests.builders import a_cpu_only_extension, a_gpu, a_jit_extension, a_library, healthy_facts, variables
from tests.cases import CASES

Path = tuple[str | int, ...]

LONG = "1" * 5000
ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, float("nan"), float("inf")),
    *("", "x", "0", "\0", "\ud800", "\x1b[31m", "9.9.9", LONG),
    *([], [[]], [None], ["x"], [0], [0, 0], [-1, -1], [10**30, 0]),
    *({}, {"text": "x"}, {"text": LONG}, {"unavailable": 1}),
    *({"unavailable": "x"}, {"unavailable": "x", "absence": "not applicable"}),
]
RICH = healthy_facts(
    gpus=(a_gpu("8.9"), a_gpu("8.6", index=1, uuid="GPU-2", name="NVIDIA GeForce RTX 3090")),
    device_code=(a_library("sm_70"), a_library("compute_70", distribution="xformers")),
    cpu_only_extensions=(a_cpu_only_extension(),),
    jit_extensions=(a_jit_extension(),),
    variables=variables(CUDA_VISIBLE_DEVICES="0,1"),
)
DOCUMENTS = [json.loads(dump_facts(facts)) for facts in (RICH, *(case.facts for case in CASES))]


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Name every value of a document."""
    yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


# A card without a state is one that is not here, and those are never beside one that is.
PATHS = [[path for path in paths(document["facts"]) if path[-1:] != ("health",)] for document in DOCUMENTS]


def replaced(number: int, path: Path, value: Any) -> str:
    """A document with another value at one place."""
    document = copy.deepcopy(DOCUMENTS[number])
    place = document
    *way, last = ("facts", *path)
    for key in way:
        place = place[key]
    place[last] = value
    return json.dumps(document)


def judge(text: str) -> Report | None:
    try:
        facts = load_facts(text)
    except CodecError:
        return None
    assert isinstance(facts, Facts)
    return api.judge(facts)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_an_odd_value_is_refused_or_judged(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(DOCUMENTS) - 1))
    path = data.draw(st.sampled_from(PATHS[number]))
    report = judge(replaced(number, path, data.draw(st.sampled_from(ODD))))
    if report is None:
        return

    assert [outcome.reasons for outcome in report.with_status(Status.CRASHED)] == []
    for name in render.formats():
        assert render.get(name).render(report, RenderOptions(verbose=True))
