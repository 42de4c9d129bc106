"""JSON that two readers could take for two things is refused (faults B04, B19)."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.strict_json import NotStrict, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)
CASES = {
    "empty": ("", "is not valid JSON"),
    "cut": ('{"a": ', "is not valid JSON"),
    "two": ("{}{}", "is not valid JSON"),
    "twice": ('{"a": 1, "a": 2}', "the duplicate key 'a'"),
    "twice_below": ('{"b": {"a": 1, "c": 2, "a": 2}}', "the duplicate key 'a'"),
    "nan": ("[NaN]", "NaN, which is no JSON number"),
    "infinity": ('{"a": -Infinity}', "-Infinity, which is no JSON number"),
    "large": ("1e999", "1e999, which is too large"),
    "digits": ("9" * 5000, "which is too large"),
    "deep_lists": ("[" * 200_000, "is nested too deeply"),
    "deep_objects": ('{"a":' * 200_000, "is nested too deeply"),
}


@given(VALUES)
def test_what_was_written_is_read(value: object) -> None:
    assert parse_json(json.dumps(value), max_depth=32) == value


@given(st.text())
def test_any_text_is_a_value_or_refused(text: str) -> None:
    with suppress(NotStrict):
        parse_json(text)


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_strict_is_refused(name: str) -> None:
    text, reason = CASES[name]
    with pytest.raises(NotStrict, match=reason):
        parse_json(text)


def test_depth_and_digits_are_bounded_where_that_is_asked_for() -> None:
    assert parse_json("[[[[1]]]]", max_depth=4) == [[[[1]]]]
    with pytest.raises(NotStrict, match="is nested too deeply"):
        parse_json("[" * 5 + "]" * 5, max_depth=4)
    assert parse_json("-12", max_digits=3) == -12
    with pytest.raises(NotStrict, match="too large"):
        parse_json("-123", max_digits=3)


def test_the_double_one_of_many_keys_is_found_soon() -> None:
    keys = [f'"{number}":0' for number in range(100_000)]
    with pytest.raises(NotStrict, match="the duplicate key '99999'"):
        parse_json("{" + ",".join([*keys, keys[-1]]) + "}")
