"""Typed reads of a request's fields, each with its bounds and its name in the error.

`null` counts as absent everywhere, as it does for OpenAI. Booleans are no numbers, and
floats are no integers, not even 1000.0. After all reads, `finish` refuses what is left
over, so that no field is ignored in silence.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from p2pmoe.api.errors import ApiRefusal

__all__ = ["Fields"]


class Fields:
    """The fields of one JSON object; `prefix` goes before names in errors."""

    def __init__(self, value: object, prefix: str = "") -> None:
        """Wrap an object; ApiRefusal if `value` is none."""
        if not isinstance(value, dict):
            raise ApiRefusal(
                f"{prefix or 'the body'} is no object",
                param=prefix or None,
                code="invalid_value",
            )
        self._left: dict[str, Any] = {k: v for k, v in value.items() if v is not None}
        self._prefix = f"{prefix}." if prefix else ""

    def take(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return a field's value of whatever type, or None."""
        return self._left.pop(name, None)

    def integer(self, name: str, low: int, high: int) -> int | None:
        """Return an integer in low..high, or None if absent."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, "must be an integer")
        if not low <= value <= high:
            raise self.wrong(name, f"must be from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a number in low..high, or None if absent."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(name, "must be a number")
        if not low <= value <= high:
            raise self.wrong(name, f"must be from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a boolean; absent is false."""
        value = self.take(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def text(self, name: str) -> str | None:
        """Return a string, or None if absent."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "must be a string")
        return value

    def items(self, name: str, max_items: int) -> list[Any] | None:
        """Return an array of at most `max_items` values, or None if absent."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, "must be an array")
        if len(value) > max_items:
            raise self.wrong(name, f"must have at most {max_items} items")
        return value

    def ignore(self, names: Iterable[str]) -> None:
        """Drop fields that change nothing here."""
        for name in names:
            self._left.pop(name, None)

    def unsupported(self, neutral: Mapping[str, tuple[object, ...]]) -> None:
        """Refuse fields that are not built, unless their value asks for nothing."""
        for name, values in neutral.items():
            value = self.take(name)
            harmless = any(type(v) is type(value) and v == value for v in values)
            if value is not None and not harmless:
                raise self.wrong(name, "is not supported", code="unsupported_parameter")

    def finish(self) -> None:
        """Refuse fields that nobody asked for."""
        for name in self._left:
            raise self.wrong(name[:80], "is unknown", code="unknown_parameter")

    def wrong(
        self, name: str, reason: str, *, code: str = "invalid_value"
    ) -> ApiRefusal:
        """Return the refusal that names a field."""
        full = self._prefix + name
        return ApiRefusal(f"{full} {reason}", param=full, code=code)
