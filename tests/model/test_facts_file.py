"""The file that `envdoctor collect` writes."""

import json

import pytest

from envdoctor.model.codec import CodecError
from envdoctor.model.facts import Facts
from envdoctor.model.facts_file import dump_facts, load_facts
from tests.builders import an_environment, healthy_facts


def test_facts_survive_the_file() -> None:
    assert load_facts(dump_facts(healthy_facts())) == healthy_facts()


def test_the_file_says_which_schema_it_follows_and_who_wrote_it() -> None:
    document = json.loads(dump_facts(Facts()))

    assert (document["schema"], document["envdoctor"]) == (1, "0.1.0")


def test_the_file_is_ascii_whatever_the_names_of_folders_are() -> None:
    facts = Facts(environment=an_environment(prefix="/home/мир/\udce9nv"))

    assert dump_facts(facts).isascii()
    assert load_facts(dump_facts(facts)) == facts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", r"\$\.schema: missing"),
        ('{"gpus": []}', r"\$\.schema: missing"),
        ('{"schema": 2, "envdoctor": "9.1"}', r"\$\.schema: 2, written by envdoctor 9\.1; this one reads 1"),
        ('{"schema": "1"}', r"\$\.schema: '1', written by envdoctor of unknown version"),
        ('{"schema": 3, "envdoctor": [1]}', r"\$\.schema: 3, written by envdoctor of unknown version"),
        pytest.param(f'{{"schema": {"[" * 900}{"]" * 900}}}', r"\$\.schema: \[\[", id="nested schema"),
        pytest.param(
            f'{{"schema": 1, "envdoctor": "0", "facts": {"[" * 900}{"]" * 900}}}', r"\$\.facts: not", id="nested facts"
        ),
        ('{"schema": 1, "envdoctor": "0.1.0"}', r"\$: not a FactsFile: .*'facts'"),
        ('{"schema": 1, "envdoctor": "0.1.0", "facts": {"host": 3}}', r"\$\.facts\.host: not an object"),
    ],
)
def test_another_file_is_refused_with_the_path_to_the_fault(text: str, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        load_facts(text)
