"""The field `response_format`: free text, any JSON object, or JSON of a schema."""

import json
import re
from dataclasses import dataclass
from typing import Any

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.fields import Fields

__all__ = ["ResponseFormat", "parse_response_format", "schema_text"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_SCHEMA_CHARACTERS = 1 << 16
_ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFormat:
    """The JSON schema that an answer must satisfy; `param` names it in refusals."""

    schema: str
    param: str = "response_format"


def parse_response_format(fields: Fields) -> ResponseFormat | None:
    """Take the field; None for free text.

    Raises:
        ApiRefusal: Another type, no schema, or one that is too large.
    """
    value = fields.take("response_format")
    if value is None:
        return None
    own = Fields(value, "response_format")
    kind = own.text("type")
    schema = own.take("json_schema")
    own.finish()
    if kind == "json_schema":
        return _schema(schema)
    if schema is not None:
        raise own.wrong("json_schema", "needs type to be json_schema")
    if kind == "json_object":
        return ResponseFormat(schema=json.dumps(_ANY_OBJECT))
    if kind != "text":
        raise own.wrong("type", "must be text, json_object or json_schema")
    return None


def _schema(value: object) -> ResponseFormat:
    fields = Fields(value, "response_format.json_schema")
    name = fields.text("name")
    if name is None or not _NAME.fullmatch(name):
        reason = "must be 1 to 64 letters, digits, dashes or underlines"
        raise fields.wrong("name", reason)
    fields.text("description")
    fields.flag("strict")  # the grammar is always strict
    schema = fields.take("schema")
    fields.finish()
    return ResponseFormat(
        schema=schema_text(_ANY_OBJECT if schema is None else schema, _PARAM),
        param=_PARAM,
    )


_PARAM = "response_format.json_schema.schema"


def schema_text(schema: object, param: str) -> str:
    """Return a schema as text for the grammar; ApiRefusal names `param`."""
    if not isinstance(schema, dict):
        raise ApiRefusal(
            f"{param} must be an object", param=param, code="invalid_value"
        )
    text = json.dumps(schema, ensure_ascii=False)
    if len(text) > _MAX_SCHEMA_CHARACTERS:
        reason = f"must have at most {_MAX_SCHEMA_CHARACTERS} characters"
        raise ApiRefusal(f"{param} {reason}", param=param, code="invalid_value")
    return text
