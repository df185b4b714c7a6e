"""What leaves the machine in a facts file, and what does not."""

import pytest

from envdoctor.model.facts import Environment, Facts
from envdoctor.probes.redaction import Identity, find_identity, redact
from tests.builders import a_distribution, a_host, an_environment, healthy_facts, variables

ALICE = Identity(homes=("/data/people/alice", "/home/alice"), users=("alice",), hosts=("gpu7.lab.example", "gpu7"))


def redacted(text: str) -> str:
    facts = redact(Facts(environment=an_environment(prefix=text)), ALICE)
    assert isinstance(facts.environment, Environment)
    return facts.environment.prefix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice", "~"),
        ("/home/alice/envs/old", "~/envs/old"),
        ("/data/people/alice/x:/home/alice/y", "~/x:~/y"),
        ("/home/alice2/env", "/home/USER/env"),
        ("/home/bob/env", "/home/USER/env"),
        ("/Users/bob/env", "/Users/USER/env"),
        ("/opt/home/bob/env", "/opt/home/bob/env"),
        ("/scratch/alice/env", "/scratch/USER/env"),
        ("/scratch/malice/env", "/scratch/malice/env"),
        ("/scratch/alices/env", "/scratch/alices/env"),
        ("alice in wonderland", "alice in wonderland"),
        ("/mnt/gpu7/env", "/mnt/HOST/env"),
        ("/mnt/gpu70/env", "/mnt/gpu70/env"),
        ("ssh://alice@gpu7.lab.example/repo", "ssh://HOST/repo"),
        ("https://user:token@example.org/simple", "https://example.org/simple"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("linux-x86_64", "linux-x86_64"),
    ],
)
def test_names_of_people_and_machines_are_replaced(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_every_fact_is_covered() -> None:
    facts = healthy_facts(
        distributions=(a_distribution(direct_url="git+https://alice:secret@example.org/x.git"),),
        variables=variables(LD_LIBRARY_PATH="/home/alice/lib:/opt/cuda/lib64"),
    )
    clean = redact(facts, ALICE)

    assert clean.distributions == (a_distribution(direct_url="git+https://example.org/x.git"),)
    assert clean.variables == variables(LD_LIBRARY_PATH="~/lib:/opt/cuda/lib64")


def test_facts_that_name_nobody_stay_as_they_are() -> None:
    assert redact(healthy_facts(), ALICE) == healthy_facts()


def test_a_host_called_like_a_word_leaves_words_alone() -> None:
    linux = Identity(homes=(), users=(), hosts=("linux",))
    facts = Facts(host=a_host(system="Linux"), environment=an_environment(platform="linux-x86_64"))

    assert redact(facts, linux) == facts


@pytest.mark.parametrize("home", ["", "/", ".", "~", "lib"])
def test_a_home_that_is_none_is_not_looked_for(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)

    assert find_identity().homes == ()


def test_the_machine_knows_its_own_identity() -> None:
    identity = find_identity()

    assert "root" not in identity.users
    assert all(home.startswith("/") and home != "/" for home in identity.homes)
