"""Whether a JSON value matches a schema: the part of JSON Schema that tasks need.

Keywords: type, enum, const, properties, required, additionalProperties (true or
false), items (one schema), minItems, maxItems, minimum, maximum, minLength, maxLength,
anyOf; title, description and default say nothing. `check_schema` refuses any other, so
that no answer is called right by a rule that was not looked at. `pattern` is one of
those: an expression from a file can take for ever.

Source: JSON Schema 2020-12, validation and applicator vocabularies.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from p2pmoe.evaluate.reading import Misread

__all__ = ["check_schema", "same_json", "schema_fault"]

_MAX_NODES: Final = 10_000
_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_SAY_NOTHING: Final = frozenset({"title", "description", "default", "$schema"})
_COUNTS: Final = ("minItems", "maxItems", "minLength", "maxLength")
_BOUNDS: Final = ("minimum", "maximum")
_KNOWN: Final = frozenset(
    {
        *("type", "enum", "const", "properties", "required", "additionalProperties"),
        *("items", "anyOf", *_COUNTS, *_BOUNDS),
    }
)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that is wrong or asks for what is not looked at; Misread."""
    left: list[tuple[str, object]] = [("schema", schema)]
    n_nodes = 0
    while left:
        where, node = left.pop()
        n_nodes += 1
        if n_nodes > _MAX_NODES:
            raise Misread(f"schema has more than {_MAX_NODES} parts")
        if not isinstance(node, Mapping):
            raise Misread(f"{where} is no object")
        for name in node:
            if name not in _KNOWN | _SAY_NOTHING:
                raise Misread(f"{where}.{str(name)[:40]} is not supported")
        _check_node(where, node)
        left += _children(where, node)


def _check_node(where: str, node: Mapping[str, Any]) -> None:
    kinds = node.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or any(k not in _TYPES for k in kinds):
        raise Misread(f"{where}.type is none of {', '.join(_TYPES)}")
    for name in _COUNTS:
        value = node.get(name, 0)
        if type(value) is not int or value < 0:
            raise Misread(f"{where}.{name} is no count")
    for name in _BOUNDS:
        if not _is_number(node.get(name, 0)):
            raise Misread(f"{where}.{name} is no number")
    if type(node.get("additionalProperties", True)) is not bool:
        raise Misread(f"{where}.additionalProperties is neither true nor false")
    _check_names(where, node)


def _check_names(where: str, node: Mapping[str, Any]) -> None:
    for name in ("enum", "required", "anyOf"):
        if not isinstance(node.get(name, []), list):
            raise Misread(f"{where}.{name} is no array")
    if not all(isinstance(name, str) for name in node.get("required", [])):
        raise Misread(f"{where}.required holds what is no name")
    if not isinstance(node.get("properties", {}), Mapping):
        raise Misread(f"{where}.properties is no object")


def _children(where: str, node: Mapping[str, Any]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = [
        (f"{where}.properties.{name}", child)
        for name, child in node.get("properties", {}).items()
    ]
    found += [(f"{where}.anyOf", child) for child in node.get("anyOf", [])]
    if "items" in node:
        found.append((f"{where}.items", node["items"]))
    return found


def schema_fault(value: object, schema: Mapping[str, Any], where: str = "value") -> str:
    """Return the first way in which a value does not match, "" if it does.

    `schema` passed `check_schema`; both are as deep as JSON that was read may be.
    """
    for rule in (_type_fault, _set_fault, _number_fault, _text_fault):
        if fault := rule(value, schema):
            return f"{where} {fault}"
    if isinstance(value, Mapping) and (fault := _object_fault(value, schema, where)):
        return fault
    if isinstance(value, list) and (fault := _array_fault(value, schema, where)):
        return fault
    options = schema.get("anyOf")
    if options and all(schema_fault(value, option) for option in options):
        return f"{where} matches nothing of anyOf"
    return ""


def same_json(one: object, other: object) -> bool:
    """Say whether two JSON values are the same: 1 is 1.0, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same_json(one[name], other[name]) for name in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return one == other


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and float(str(value)).is_integer(),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _type_fault(value: object, schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds or any(_IS[kind](value) for kind in kinds):
        return ""
    return f"is no {' or '.join(kinds)}"


def _set_fault(value: object, schema: Mapping[str, Any]) -> str:
    if "const" in schema and not same_json(value, schema["const"]):
        return "is not the constant"
    options = schema.get("enum")
    if options is not None and not any(same_json(value, each) for each in options):
        return "is none of enum"
    return ""


def _number_fault(value: object, schema: Mapping[str, Any]) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if "minimum" in schema and value < schema["minimum"]:
        return f"is below {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"is above {schema['maximum']}"
    return ""


def _text_fault(value: object, schema: Mapping[str, Any]) -> str:
    if not isinstance(value, str):
        return ""
    if len(value) < schema.get("minLength", 0):
        return f"is shorter than {schema['minLength']}"
    if len(value) > schema.get("maxLength", len(value)):
        return f"is longer than {schema['maxLength']}"
    return ""


def _object_fault(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str
) -> str:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{where} lacks {name[:40]!r}"
    for name, child in value.items():
        if name in properties:
            if fault := schema_fault(child, properties[name], f"{where}.{name[:40]}"):
                return fault
        elif not schema.get("additionalProperties", True):
            return f"{where} has {name[:40]!r}, which is not asked for"
    return ""


def _array_fault(value: list[Any], schema: Mapping[str, Any], where: str) -> str:
    if len(value) < schema.get("minItems", 0):
        return f"{where} has fewer than {schema['minItems']} items"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{where} has more than {schema['maxItems']} items"
    if "items" in schema:
        for number, child in enumerate(value):
            if fault := schema_fault(child, schema["items"], f"{where}[{number}]"):
                return fault
    return ""
