"""JSON bodies, read strictly: UTF-8, one object, no NaN, no duplicate keys, bounded.

How is p2pmoe.strict_json's; here what is wrong becomes a refusal (fault B19). Nesting
is bounded below Python's recursion limit.
"""

from typing import Any

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.strict_json import NotStrict, parse_json

__all__ = ["MAX_DEPTH", "parse_object"]

MAX_DEPTH = 64


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object that `body` holds; ApiRefusal with code `invalid_json` else."""
    try:
        value = parse_json(body.decode("utf-8"), max_depth=MAX_DEPTH)
    except UnicodeDecodeError as exc:
        raise _refusal("is not UTF-8") from exc
    except NotStrict as exc:
        raise _refusal(str(exc)) from exc
    if not isinstance(value, dict):
        raise _refusal("is not a JSON object")
    return value


def _refusal(reason: str) -> ApiRefusal:
    return ApiRefusal(f"the body {reason}", code="invalid_json")
