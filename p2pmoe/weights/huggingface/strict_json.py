"""JSON of model files, read strictly: no key twice, no NaN, Unicode, of bounded depth.

A parser that keeps the last of two equal keys lets one file mean two things to two
readers (fault B04). Whatever is wrong raises ModelFileError with the file and field.
"""

import json
import re
from pathlib import Path

from p2pmoe.strict_json import NotStrict, parse_json
from p2pmoe.weights.errors import ModelFileError

__all__ = ["parse_object"]

_MAX_MARKS = 1 << 23  # of structure: the largest tokenizer.json has half of that
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(
    path: Path,
    raw: bytes,
    field: str,
    *,
    max_marks: int = _MAX_MARKS,
    max_depth: int | None = None,
) -> dict[str, object]:
    """Return the JSON object in `raw`; `path` and `field` are for messages.

    At most `max_marks` brackets, commas and quotation marks are parsed: memory goes by
    them, and may be thirty times the size of a file made for that. `max_depth` as in
    `parse_json`.

    Raises:
        ModelFileError: too many marks, no UTF-8, no JSON, no object, a key twice, NaN
            or infinity, a number of thousands of digits, half a surrogate pair, or
            nested too deeply.
    """
    if sum(map(raw.count, (b"[", b"{", b",", b'"'))) > max_marks:
        reason = f"has more than {max_marks} brackets, commas and quotation marks"
        raise ModelFileError(path, reason, field=field)
    try:
        value = _parsed(raw.decode(), max_depth)
    except UnicodeDecodeError as exc:
        raise ModelFileError(path, "is not UTF-8", field=field) from exc
    except NotStrict as exc:
        raise ModelFileError(path, str(exc), field=field) from exc
    if not isinstance(value, dict):
        reason = f"is a JSON {type(value).__name__}, not an object"
        raise ModelFileError(path, reason, field=field)
    return value


def _parsed(text: str, max_depth: int | None) -> object:
    value: object = parse_json(text, max_depth=max_depth)
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as exc:
            raise NotStrict("holds half a surrogate pair, no Unicode") from exc
        except RecursionError as exc:
            raise NotStrict("is nested too deeply") from exc
    return value
