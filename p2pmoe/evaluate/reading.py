"""JSON from files that others may have written, read strictly and field by field.

Rules: one object, UTF-8 already decoded, no duplicate keys, no NaN or infinity, depth
and sizes bounded; every field has its kind and its bounds; what is left over is
refused, so that a field with a typing error is never ignored in silence. Each refusal
is a `Misread` of one line that names the field; who reads adds the file and the line.
"""

from collections.abc import Mapping
from typing import Any, Final

from p2pmoe.strict_json import NotStrict, parse_json

__all__ = ["MAX_DEPTH", "Misread", "Record", "parse_object", "parse_value"]

MAX_DEPTH: Final = 32
_MAX_DIGITS: Final = 20


class Misread(Exception):
    """What was read is not what it should be; one lower-case line."""


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` holds; Misread else."""
    value = parse_value(text)
    if not isinstance(value, dict):
        raise Misread("is no JSON object")
    return value


def parse_value(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value that `text` is; Misread if it is none, or too deep."""
    try:
        return parse_json(text, max_depth=MAX_DEPTH, max_digits=_MAX_DIGITS)
    except NotStrict as error:
        raise Misread(str(error)) from error


class Record:
    """The fields of one object, each taken once; `where` goes before names in errors.

    Every method raises Misread for a value of another kind or out of its bounds; those
    with a `default` give it where the field is absent or null.
    """

    def __init__(self, value: object, where: str = "") -> None:
        """Wrap an object."""
        if not isinstance(value, Mapping):
            raise Misread(f"{where or 'the record'} is no object")
        self._left = {str(k): v for k, v in value.items() if v is not None}
        self._prefix = f"{where}." if where else ""

    def has(self, name: str) -> bool:
        """Say whether a field is there and not yet taken."""
        return name in self._left

    def take(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return a field of whatever kind, None if it is absent."""
        return self._left.pop(name, None)

    def text(self, name: str, most: int, default: str | None = None) -> str:
        """Return a string of at most `most` characters."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "must be a string")
        if len(value) > most:
            raise self.wrong(name, f"has {len(value)} characters, more than {most}")
        return value

    def integer(
        self, name: str, low: int, high: int, default: int | None = None
    ) -> int:
        """Return an integer in low..high."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, "must be an integer")
        if not low <= value <= high:
            raise self.wrong(name, f"must be from {low} to {high}, not {value}")
        return value

    def number(
        self, name: str, low: float, high: float, default: float | None = None
    ) -> float:
        """Return a number in low..high."""
        value = self._value(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(name, "must be a number")
        if not low <= value <= high:
            raise self.wrong(name, f"must be from {low:g} to {high:g}, not {value:g}")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def items(self, name: str, most: int, *, optional: bool = False) -> list[Any]:
        """Return an array of at most `most` values; empty if it may be absent."""
        value = self._value(name, [] if optional else None)
        if not isinstance(value, list):
            raise self.wrong(name, "must be an array")
        if len(value) > most:
            raise self.wrong(name, f"has {len(value)} items, more than {most}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object."""
        value = self._value(name, None)
        if not isinstance(value, dict):
            raise self.wrong(name, "must be an object")
        return value

    def finish(self) -> None:
        """Refuse fields that nobody asked for."""
        for name in self._left:
            raise self.wrong(name[:40], "is unknown")

    def wrong(self, name: str, reason: str) -> Misread:
        """Return the error that names a field."""
        return Misread(f"{self._prefix}{name} {reason}")

    def _value(self, name: str, default: object) -> object:
        value = self._left.pop(name, default)
        if value is None:
            raise self.wrong(name, "is missing")
        return value
