"""JSON read strictly: no key twice, no NaN or infinity, bounded numbers and depth.

Python's reader keeps the last of two equal keys, takes NaN, makes 1e999 an infinity and
builds integers of thousands of digits: one text then means two things to two readers,
or costs more than it may (faults B04, B19). Whoever reads adds whose text it was: the
body of a request, a file's field or line. Pure.

Source: RFC 8259; RFC 7493 (I-JSON).
"""

import json
import math
from typing import Any, NoReturn

__all__ = ["NotStrict", "parse_json"]

_MAX_DIGITS = 4300  # of an integer, as Python itself refuses them
_MAX_SHOWN = 40
_MAX_REASON = 120


class NotStrict(ValueError):
    """A text is no such JSON; says why in one line, such as "is nested too deeply"."""


def parse_json(
    text: str, *, max_depth: int | None = None, max_digits: int = _MAX_DIGITS
) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value that `text` is.

    Objects and arrays lie within each other at most `max_depth` deep, None: as deep as
    the parser goes; integers have at most `max_digits` digits, the sign included.

    Raises:
        NotStrict: it is none, or one that is refused.
    """

    def bounded(digits: str) -> int:
        if len(digits) > max_digits:
            raise NotStrict(f"holds the number {digits[:24]}..., which is too large")
        return int(digits)

    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=bounded,
        )
    except RecursionError as exc:
        raise NotStrict("is nested too deeply") from exc
    except NotStrict:
        raise
    except ValueError as exc:
        raise NotStrict(f"is not valid JSON: {str(exc)[:_MAX_REASON]}") from exc
    if max_depth is not None:
        _check_depth(value, max_depth)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotStrict(f"holds the duplicate key {key[:_MAX_SHOWN]!r}")
            seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise NotStrict(f"holds {name}, which is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrict(f"holds the number {text[:_MAX_SHOWN]}, which is too large")
    return value


def _check_depth(value: object, max_depth: int) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    if level:
        raise NotStrict("is nested too deeply")
