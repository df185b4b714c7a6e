"""Code for one more architecture never takes a card its code away."""

from hypothesis import given, settings
from hypothesis import strategies as st

from envdoctor import api, kb
from envdoctor.api import Selection
from envdoctor.model.facts import Facts
from tests.builders import a_library, a_named_gpu, a_torch, a_torch_library, healthy_facts

NO_CODE = Selection(select=("torch-without-code-for-gpu", "extension-without-code-for-gpu"))

capabilities = st.sampled_from(sorted(kb.load().architectures))
archs = st.builds(
    lambda kind, capability: f"{kind}_{capability.number}", st.sampled_from(["sm", "compute"]), capabilities
)


def findings(arch_list: list[str], facts: Facts) -> set[str]:
    listed = " ".join(arch_list)
    code = {"torch": a_torch(arch_list=listed), "device_code": (a_torch_library(listed), a_library(listed))}
    report = api.judge(healthy_facts(**code, gpus=facts.gpus), NO_CODE)
    return {outcome.rule.code for outcome in report.failed()}


@settings(max_examples=80, deadline=None)
@given(st.lists(archs, min_size=1, max_size=4), archs, capabilities)
def test_adding_an_architecture_creates_no_finding(arch_list: list[str], added: str, capability: object) -> None:
    facts = healthy_facts(gpus=(a_named_gpu(str(capability)),))

    assert findings([*arch_list, added], facts) <= findings(arch_list, facts)


@settings(max_examples=40, deadline=None)
@given(capabilities)
def test_code_for_the_card_itself_is_always_enough(capability: object) -> None:
    facts = healthy_facts(gpus=(a_named_gpu(str(capability)),))
    number = str(capability).replace(".", "")

    assert findings([f"sm_{number}"], facts) == set()
