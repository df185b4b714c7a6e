"""Generated facts and reports: every value that the types allow, and texts that foreign files could hold."""

from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.facts import Facts
from envdoctor.model.finding import Evidence, Finding, Outcome, Report, Status
from envdoctor.model.versions import DriverRelease
from tests.render.reports import BUGGY, DRIVER_TOO_OLD, NO_DEVICE_CODE, ODD, SLOW

capabilities = st.builds(ComputeCapability, major=st.integers(1, 13), minor=st.integers(0, 9))
archs = st.builds(
    Arch,
    capability=capabilities,
    kind_name=st.sampled_from(["sm", "compute", "lto"]),
    suffix=st.sampled_from(["", "a", "f"]),
)
drivers = st.from_regex(r"[3-9]\d\d(\.\d{1,3}){0,2}", fullmatch=True).map(DriverRelease.parse)

# Paths are bytes to Linux, so that text from the disk may hold lone surrogates; names may hold markup and controls.
texts = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["/opt/\udce9nv", "[red]x[/]", "a|b`c", "\x1b[2J", "two\nlines", "", " ", "`" * 3, "x" * 200]
)

st.register_type_strategy(ComputeCapability, capabilities)
st.register_type_strategy(Arch, archs)
st.register_type_strategy(DriverRelease, drivers)
st.register_type_strategy(str, texts)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(int, st.integers(0, 2**63))


def _short(annotation: Any) -> st.SearchStrategy[Any]:
    """Give tuples of any length at most two items: facts are wide and deep enough."""
    kind, *others = get_args(annotation)
    if others[-1:] == [Ellipsis]:
        return st.lists(st.from_type(kind), max_size=2).map(tuple)
    return st.tuples(*map(st.from_type, (kind, *others)))


st.register_type_strategy(tuple, _short)


def _findings() -> st.SearchStrategy[Finding]:
    evidence = st.lists(st.from_type(Evidence), min_size=1, max_size=3).map(tuple)
    return st.builds(
        Finding, message=texts.filter(bool), evidence=evidence, gpus=st.lists(st.integers(0, 3), max_size=2).map(tuple)
    )


@st.composite
def _outcomes(draw: st.DrawFn, rule: Any) -> Outcome:
    status = draw(st.sampled_from(Status))
    findings = draw(st.lists(_findings(), min_size=1, max_size=2)) if status is Status.FAILED else []
    reasons = draw(st.lists(texts, max_size=2))
    return Outcome(rule=rule, status=status, findings=tuple(findings), reasons=tuple(reasons))


facts = st.from_type(Facts)

# What a report shows of the facts.
_shown = {name: st.from_type(get_type_hints(Facts)[name]) for name in ("environment", "torch", "driver", "gpus")}
reports = st.builds(
    Report,
    facts=st.builds(Facts, **_shown, device_code=st.just(())),
    outcomes=st.tuples(*(_outcomes(rule) for rule in (NO_DEVICE_CODE, SLOW, ODD, DRIVER_TOO_OLD, BUGGY))),
)
