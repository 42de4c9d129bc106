"""The subset of JSON Schema: refused where it is not understood, else decided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.reading import Misread
from p2pmoe.evaluate.schema import check_schema, same_json, schema_fault

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", 1]}, "maxItems": 2},
        "id": {"anyOf": [{"type": "null"}, {"const": 7}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"name": "Ann", "age": 7.0, "tags": ["a", 1.0], "id": None}, ""),
        ({"name": "Ann", "id": 7}, ""),
        ([], "v is no object"),
        ({}, "v lacks 'name'"),
        ({"name": 5}, "v.name is no string"),
        ({"name": ""}, "v.name is shorter than 1"),
        ({"name": "Annabel"}, "v.name is longer than 5"),
        ({"name": "Ann", "age": True}, "v.age is no integer"),
        ({"name": "Ann", "age": 1.5}, "v.age is no integer"),
        ({"name": "Ann", "age": -1}, "v.age is below 0"),
        ({"name": "Ann", "age": 200}, "v.age is above 150"),
        ({"name": "Ann", "tags": ["b"]}, "v.tags[0] is none of enum"),
        ({"name": "Ann", "tags": [True]}, "v.tags[0] is none of enum"),
        ({"name": "Ann", "tags": ["a"] * 3}, "v.tags has more than 2 items"),
        ({"name": "Ann", "id": 8}, "v.id matches nothing of anyOf"),
        ({"name": "Ann", "x": 1}, "v has 'x', which is not asked for"),
    ],
)
def test_the_first_fault_is_named(value, fault):
    check_schema(PERSON)
    assert schema_fault(value, PERSON, "v") == fault


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"pattern": "a+"}, "schema.pattern is not supported"),
        ({"$ref": "#"}, r"schema.\$ref is not supported"),
        ({"type": "text"}, "schema.type is none of"),
        ({"type": 1}, "schema.type is none of"),
        ({"minItems": -1}, "schema.minItems is no count"),
        ({"minimum": "0"}, "schema.minimum is no number"),
        ({"additionalProperties": {}}, "neither true nor false"),
        ({"required": "a"}, "schema.required is no array"),
        ({"required": [1]}, "schema.required holds what is no name"),
        ({"properties": []}, "schema.properties is no object"),
        ({"properties": {"a": 1}}, "schema.properties.a is no object"),
        ({"items": [{}]}, "schema.items is no object"),
        ({"anyOf": [{"type": "x"}]}, "schema.anyOf.type is none of"),
    ],
)
def test_what_is_not_looked_at_is_refused(schema, words):
    with pytest.raises(Misread, match=words):
        check_schema(schema)


def test_a_schema_of_too_many_parts_is_refused():
    with pytest.raises(Misread, match="more than 10000 parts"):
        check_schema({"anyOf": [{}] * 10_001})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(JSON)
def test_a_value_matches_itself_as_constant(value):
    assert schema_fault(value, {"const": value}) == ""
    assert same_json(value, value)


@given(JSON, JSON)
def test_sameness_goes_both_ways(one, other):
    assert same_json(one, other) == same_json(other, one)
    if same_json(one, other):
        assert one == other


def test_numbers_are_one_kind_and_truth_is_none():
    assert same_json({"a": [1]}, {"a": [1.0]})
    assert not same_json(1, True)
    assert not same_json({"a": 0}, {"a": False})
