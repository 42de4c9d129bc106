"""JSON that two readers could take for two things is refused (fault B04)."""

from pathlib import Path

import pytest

from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.strict_json import parse_object

PATH = Path("config.json")
CASES = {
    "twice": (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
    "twice_below": (b'{"b": {"a": 1, "c": 2, "a": 2}}', "duplicate key 'a'"),
    "nan": (b'{"a": NaN}', "NaN, which is no JSON number"),
    "infinity": (b'{"a": [-Infinity]}', "-Infinity, which is no JSON number"),
    "list": (b"[]", "is a JSON list"),
    "number": (b"3", "is a JSON int"),
    "deep_lists": (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
    "deep_objects": (b'{"a": ' * 100_000, "nested too deeply"),
    "huge_number": (b'{"a": ' + b"9" * 5000 + b"}", "is too large"),
    "not_utf8": (b'{"a": "\xff"}', "is not UTF-8"),
    "cut": (b'{"a": ', "is not valid JSON"),
    "two": (b"{}{}", "is not valid JSON"),
    "empty": (b"", "is not valid JSON"),
    "half_a_pair": (b'{"a": ["\\ud83d"]}', "half a surrogate pair"),
    "half_a_pair_as_a_key": (b'{"a": {"\\uDE0A": 1}}', "half a surrogate pair"),
    "half_a_pair_deep": (
        b'{"a": "\\ud800", "b":' + b"[" * 900 + b"]" * 900 + b"}",
        "(half a surrogate pair|nested too deeply)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_b04_what_is_not_strict_is_refused(name: str) -> None:
    raw, reason = CASES[name]
    with pytest.raises(ModelFileError, match=f"config.json, config: .*{reason}"):
        parse_object(PATH, raw, "config")


def test_an_object_is_returned_as_it_is() -> None:
    raw = b' {"a": [1, 2.5, null, true], "b": {"a": "x"}} '
    assert parse_object(PATH, raw, "config") == {
        "a": [1, 2.5, None, True],
        "b": {"a": "x"},
    }


def test_a_whole_pair_and_an_escaped_backslash_are_text() -> None:
    raw = rb'{"a": "\ud83d\ude0a", "b": "\\ud83d"}'
    assert parse_object(PATH, raw, "config") == {"a": "\U0001f60a", "b": r"\ud83d"}


def test_marks_are_counted_before_anything_is_parsed() -> None:
    raw = b'{"a": [1, 2, {"b": ["c"]}]}'
    assert parse_object(PATH, raw, "config", max_marks=12)
    with pytest.raises(ModelFileError, match="has more than 11 brackets"):
        parse_object(PATH, raw, "config", max_marks=11)
