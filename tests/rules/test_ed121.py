"""ED121: docker's small default of shared memory."""

from typing import Any

import pytest

from envdoctor.model.facts import Host, Unavailable
from envdoctor.model.finding import NotApplicable, Undecided
from envdoctor.rules.ed121_small_shared_memory import small_shared_memory
from tests.builders import a_host, a_named_gpu


def a_container(**changes: Any) -> Host:
    return a_host(**{"container": "docker", "container_evidence": "/.dockerenv"} | changes)


@pytest.mark.parametrize("size", [64 << 20, 32 << 20])
def test_fires_on_the_default_of_docker(size: int) -> None:
    """bytedance/Protenix#2 and msr-fiddle/pipedream#28."""
    [finding] = small_shared_memory(host=a_container(shm_total=size))

    assert f"{size >> 20} MiB" in finding.message


@pytest.mark.parametrize("size", [65 << 20, 8 << 30])
def test_is_silent_when_there_is_more(size: int) -> None:
    assert not small_shared_memory(host=a_container(shm_total=size))


def test_has_nothing_to_judge_outside_of_containers() -> None:
    """greatlog/UnpairedSR#17: no docker, and a bus error of another cause."""
    [conclusion] = small_shared_memory.check(host=a_host(shm_total=64 << 20))

    assert isinstance(conclusion, NotApplicable)


def test_has_nothing_to_judge_for_cards_that_are_not_here() -> None:
    [conclusion] = small_shared_memory.check(host=a_container(shm_total=64 << 20), gpus=(a_named_gpu("8.9"),))

    assert isinstance(conclusion, NotApplicable)


def test_leaves_an_unreadable_size_undecided() -> None:
    [conclusion] = small_shared_memory.check(host=a_container(shm_total=Unavailable("no permission")))

    assert isinstance(conclusion, Undecided)
