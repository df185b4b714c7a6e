import pytest

from envdoctor.model.wording import enumerate_all


@pytest.mark.parametrize(
    ("things", "text"), [([], ""), (["8.9"], "8.9"), (["8.9", 8.6], "8.9 and 8.6"), ("ABCD", "A, B, C and D")]
)
def test_enumerates_as_people_write(things: list[object], text: str) -> None:
    assert enumerate_all(things) == text
