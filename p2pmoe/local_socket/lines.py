"""What every line of a control socket is: one JSON object, ended by a newline. Pure.

    {"version": 1, ...}

It is in UTF-8. Which fields there are is each service's business. Nothing in a line is
trusted before it was read here: strict JSON, bounded in length, depth and digits.
"""

import json
from collections.abc import Mapping
from typing import Any

from p2pmoe.strict_json import NotStrict, parse_json

__all__ = ["pack_line", "read_line"]

_VERSION = 1
_MAX_DEPTH = 12
_MAX_DIGITS = 20  # a signed 64-bit integer


def pack_line(fields: Mapping[str, object]) -> bytes:
    """Return the line with these fields."""
    return json.dumps({"version": _VERSION, **fields}).encode() + b"\n"


def read_line(line: bytes, max_bytes: int) -> dict[str, Any]:
    """Return the fields of a line of at most so many bytes.

    Raises:
        NotStrict: it is none.
    """
    if len(line) > max_bytes or not line.endswith(b"\n"):
        raise NotStrict(f"has {len(line)} bytes and does not end")
    try:
        text = line.decode()
    except UnicodeDecodeError as exc:
        raise NotStrict("is not UTF-8") from exc
    fields = parse_json(text, max_depth=_MAX_DEPTH, max_digits=_MAX_DIGITS)
    if not isinstance(fields, dict) or fields.get("version") != _VERSION:
        raise NotStrict(f"is not of version {_VERSION}")
    return fields
