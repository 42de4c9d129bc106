"""JSON of model files, read strictly: no key twice, no NaN, Unicode, of bounded depth.

A parser that keeps the last of two equal keys lets one file mean two things to two
readers (fault B04). Whatever is wrong raises ModelFileError with the file and field.
"""

import json
import re
from pathlib import Path
from typing import NoReturn

from p2pmoe.weights.errors import ModelFileError

__all__ = ["parse_object"]

_MAX_SHOWN = 80
_MAX_MARKS = 1 << 23  # of structure: the largest tokenizer.json has half of that
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _NotStrictError(ValueError):
    """Well-formed JSON that is refused all the same; says why."""


def parse_object(
    path: Path, raw: bytes, field: str, *, max_marks: int = _MAX_MARKS
) -> dict[str, object]:
    """Return the JSON object in `raw`; `path` and `field` are for messages.

    At most `max_marks` brackets, commas and quotation marks are parsed: memory goes by
    them, and may be thirty times the size of a file made for that.

    Raises:
        ModelFileError: too many marks, no UTF-8, no JSON, no object, a key twice, NaN
            or infinity, a number of thousands of digits, half a surrogate pair, or
            nested too deeply.
    """
    if sum(map(raw.count, (b"[", b"{", b",", b'"'))) > max_marks:
        reason = f"has more than {max_marks} brackets, commas and quotation marks"
        raise ModelFileError(path, reason, field=field)
    try:
        value = _parsed(raw)
    except UnicodeDecodeError as exc:
        raise ModelFileError(path, "is not UTF-8", field=field) from exc
    except RecursionError as exc:
        raise ModelFileError(path, "is nested too deeply", field=field) from exc
    except _NotStrictError as exc:
        raise ModelFileError(path, str(exc), field=field) from exc
    except ValueError as exc:
        reason = f"is no JSON: {str(exc)[:_MAX_SHOWN]}"
        raise ModelFileError(path, reason, field=field) from exc
    if not isinstance(value, dict):
        reason = f"is a JSON {type(value).__name__}, not an object"
        raise ModelFileError(path, reason, field=field)
    return value


def _parsed(raw: bytes) -> object:
    text = raw.decode()
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as exc:
            raise _NotStrictError("holds half a surrogate pair, no Unicode") from exc
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                shown = name[:_MAX_SHOWN]
                shown = shown if shown.isprintable() else ascii(shown)
                raise _NotStrictError(f"duplicate name {shown}")
            seen.add(name)
    return values


def _no_constant(text: str) -> NoReturn:
    raise _NotStrictError(f"{text} is no JSON number")
