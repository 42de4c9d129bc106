import json

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.fields import Fields
from p2pmoe.api.response_formats import (
    ResponseFormat,
    parse_response_format,
    schema_text,
)


def form(value: object) -> ResponseFormat | None:
    return parse_response_format(Fields({"response_format": value}))


def of_schema(**fields: object) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "x", **fields}}


def test_formats() -> None:
    assert form(None) is None
    assert form({"type": "text"}) is None
    anything = form({"type": "json_object"})
    assert anything is not None
    assert json.loads(anything.schema) == {"type": "object"}
    assert anything.param == "response_format"
    given = form(of_schema(schema={"type": "array"}, strict=True, description="d"))
    assert given is not None
    assert json.loads(given.schema) == {"type": "array"}
    assert given.param == "response_format.json_schema.schema"
    assert form(of_schema()) is not None


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json", "response_format"),
        ({"type": "xml"}, "response_format.type"),
        ({}, "response_format.type"),
        ({"type": "text", "x": 1}, "response_format.x"),
        ({"type": "json_object", "json_schema": {}}, "response_format.json_schema"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {}},
            "response_format.json_schema.name",
        ),
        (of_schema(name="a b"), "response_format.json_schema.name"),
        (of_schema(strict=3), "response_format.json_schema.strict"),
        (of_schema(other=3), "response_format.json_schema.other"),
        (of_schema(schema=True), "response_format.json_schema.schema"),
        (
            of_schema(schema={"enum": ["x" * 70_000]}),
            "response_format.json_schema.schema",
        ),
    ],
    ids=range(12),
)
def test_what_is_wrong_is_named(value: object, param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        form(value)
    assert caught.value.param == param


def test_a_schema_is_text_in_its_own_order() -> None:
    assert schema_text({"b": 1, "a": "é"}, "x") == '{"b": 1, "a": "é"}'
