"""The composition root: wires probes, rules and the knowledge base."""

from envdoctor import kb
from envdoctor.engine import diagnose
from envdoctor.model.facts import Facts
from envdoctor.model.finding import Report
from envdoctor.probes import Plan, collect
from envdoctor.rules import load_rules


def examine(plan: Plan) -> Report:
    """Collect the facts that *plan* asks for, and judge them."""
    return judge(collect(plan, kb.load()))


def judge(facts: Facts) -> Report:
    """Judge facts that were collected before, here or on another machine."""
    return diagnose(facts, kb.load(), load_rules())
