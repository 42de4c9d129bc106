"""JSON bodies, read strictly: UTF-8, one object, no NaN, no duplicate keys, bounded.

Python's reader accepts NaN and duplicate keys and guesses encodings; none of these
passes here (fault B19). Nesting is bounded below Python's recursion limit.
"""

import json
import math
from collections import Counter
from typing import Any, NoReturn

from p2pmoe.api.errors import ApiRefusal

__all__ = ["MAX_DEPTH", "parse_object"]

MAX_DEPTH = 64


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object that `body` holds; ApiRefusal with code `invalid_json` else."""
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError as exc:
        raise _refusal("the body is not UTF-8") from exc
    except RecursionError as exc:
        raise _refusal("the body is nested too deeply") from exc
    except ValueError as exc:
        raise _refusal(f"the body is not valid JSON: {str(exc)[:120]}") from exc
    if not isinstance(value, dict):
        raise _refusal("the body is not a JSON object")
    _check_depth(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        double = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"duplicate key {double[:40]!r}")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:40]} is too large")
    return value


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise _refusal("the body is nested too deeply")


def _refusal(message: str) -> ApiRefusal:
    return ApiRefusal(message, code="invalid_json")
