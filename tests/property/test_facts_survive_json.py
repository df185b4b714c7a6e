"""Facts that were written and read again are the same facts, so that a case can be judged anywhere."""

from hypothesis import HealthCheck, given, settings

from envdoctor.model.facts import Facts
from envdoctor.model.facts_file import dump_facts, load_facts
from tests.property.strategies import facts


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(facts)
def test_any_facts_survive_the_file(collected: Facts) -> None:
    assert load_facts(dump_facts(collected)) == collected
