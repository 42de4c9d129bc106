"""Whether an answer is JSON, the whole of it."""

import pytest

from p2pmoe.evaluate.structured import score_format

SCHEMA = {"type": "object", "required": ["a"]}


@pytest.mark.parametrize(
    ("answer", "valid", "matches"),
    [
        (' {"a": 1}\n', True, True),
        ('{"b": 1}', True, False),
        ("[1]", True, False),
        ('```json\n{"a": 1}\n```', False, False),
        ('Here it is: {"a": 1}', False, False),
        ('{"a": 1', False, False),
        ('{"a": 1} and more', False, False),
        ('{"a": 1, "a": 2}', False, False),
        ("", False, False),
        ("[" * 100_000, False, False),
    ],
)
def test_the_whole_answer_counts(answer, valid, matches):
    score = score_format(answer, SCHEMA)
    assert (score.valid, score.matches) == (valid, matches)
    assert bool(score.fault) != (valid and matches)


def test_without_a_schema_any_value_will_do():
    assert score_format("5", None).matches is None
    assert score_format("5", None).valid
    assert not score_format("five", None).valid
