"""Whether an answer is JSON, and of the shape that was asked for.

The whole answer counts, white space around it apart: a program that reads it would see
the sentence before it, the fence around it and the end that is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from p2pmoe.evaluate.reading import Misread, parse_value
from p2pmoe.evaluate.schema import schema_fault

__all__ = ["FormatScore", "score_format"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatScore:
    """`fault` says what is wrong, "" if nothing; `matches` is None without a schema."""

    valid: bool
    matches: bool | None
    fault: str


def score_format(answer: str, schema: Mapping[str, Any] | None) -> FormatScore:
    """Look at an answer; `schema` passed `check_schema`."""
    try:
        value = parse_value(answer)
    except Misread as error:
        return FormatScore(
            valid=False,
            matches=None if schema is None else False,
            fault=f"the answer {error}",
        )
    if schema is None:
        return FormatScore(valid=True, matches=None, fault="")
    fault = schema_fault(value, schema, "the answer")
    return FormatScore(valid=True, matches=not fault, fault=fault)
