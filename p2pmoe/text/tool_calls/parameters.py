"""What a reader knows of the tools: their names, and their parameters' types.

Formats without JSON write every value as text; the schema says which of them are to
be read as JSON. Nothing here follows references: a type that is not plainly there is
not known, and its value stays text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

__all__ = ["KnownTool", "argument_value", "declared_types", "known_tool", "read_json"]

_TEXT = "string"
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTool:
    """A tool's name, the schema of its arguments as text, and their types."""

    name: str
    schema: str
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def value(self, parameter: str, text: str) -> object:
        """Return a parameter's value, which a model wrote as bare text."""
        return argument_value(text, self.types.get(parameter, frozenset()))


def known_tool(name: str, schema: str) -> KnownTool:
    """Return a tool by its schema, a JSON object as text."""
    parsed = json.loads(schema)
    properties = parsed.get("properties")
    types: dict[str, frozenset[str]] = {}
    if isinstance(properties, dict):
        types = {key: declared_types(value) for key, value in properties.items()}
    return KnownTool(name=name, schema=schema, types=types)


def argument_value(text: str, types: frozenset[str]) -> object:
    """Return a value: JSON if its types are others than text, and it is JSON."""
    if not types - {_TEXT}:
        return text
    try:
        value = read_json(text)
    except ValueError:
        return text
    if value is None:
        return None if "null" in types else text
    if isinstance(value, str) or (
        _TEXT in types and not isinstance(value, dict | list)
    ):
        return text
    return value


def read_json(text: str) -> object:
    """Return the value of strict JSON; ValueError for all else, however deep."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def declared_types(schema: object) -> frozenset[str]:
    """Return the types that a parameter's schema plainly names, or its values have."""
    if not isinstance(schema, dict):
        return frozenset()
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(each for each in declared if isinstance(each, str))
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return frozenset(_TYPES[type(each)] for each in values if type(each) in _TYPES)
    cases = schema.get("anyOf")
    if isinstance(cases, list):
        found = [each.get("type") for each in cases if isinstance(each, dict)]
        return frozenset(each for each in found if isinstance(each, str))
    return frozenset()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
