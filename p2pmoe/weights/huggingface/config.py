"""A model's config.json: typed reads that name the key, null as absent.

The hub's files spell what is not set as null or leave it out; both are "absent" here.
A value of another type or out of its bounds is ModelFileError, never a guess.
"""

from collections.abc import Mapping
from pathlib import Path

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.strict_json import parse_object

__all__ = ["MAX_SIZE", "Config", "parse_config"]

MAX_SIZE = 1 << 24
_MAX_SHOWN = 60
_MAX_REAL = 1e30


class Config:
    """A JSON object of the configuration; `prefix` is where it lies in the file."""

    def __init__(
        self, path: Path, values: Mapping[str, object], prefix: str = ""
    ) -> None:
        """Wrap `values`; `path` and `prefix` are for messages."""
        self.path = path
        self._values = values
        self._prefix = prefix

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def present(self) -> tuple[str, ...]:
        """Return the keys that are present."""
        return tuple(key for key in self._values if key in self)

    def entries(self) -> dict[str, object]:
        """Return what is present, as JSON has it."""
        return {key: self._values[key] for key in self.present()}

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        low: int = 1,
        high: int = MAX_SIZE,
    ) -> int:
        """Return an integer in low..high; ModelFileError else, or if it is absent."""
        value = self._fetch(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"{_shown(value)} is no integer")
        if not low <= value <= high:
            raise self.wrong(key, f"{_shown(value)} is not in {low}..{high}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """Return a finite number; ModelFileError else, or if it is absent."""
        value = self._fetch(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"{_shown(value)} is no number")
        try:
            number = float(value)
        except OverflowError as exc:
            raise self.wrong(key, f"{_shown(value)} is not finite") from exc
        if not abs(number) <= _MAX_REAL:
            raise self.wrong(key, f"{_shown(value)} is not in +-{_MAX_REAL}")
        return number

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean; ModelFileError else, or if it is absent."""
        value = self._fetch(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"{_shown(value)} is no boolean")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; ModelFileError else, or if it is absent."""
        value = self._fetch(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"{_shown(value)} is no string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; ModelFileError else, or if it is absent."""
        value = self._fetch(key, None)
        if not isinstance(value, list) or not all(
            isinstance(item, str) for item in value
        ):
            raise self.wrong(key, f"{_shown(value)} is no list of strings")
        return tuple(value)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers; ModelFileError else, or if it is absent."""
        value = self._fetch(key, None)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self.wrong(key, f"{_shown(value)} is no list of integers")
        return tuple(value)

    def reals(self, key: str) -> tuple[float, ...]:
        """Return a list of finite numbers; ModelFileError else, or if it is absent."""
        value = self._fetch(key, None)
        if not isinstance(value, list) or not all(
            type(item) in {int, float} and abs(item) < _MAX_REAL for item in value
        ):
            raise self.wrong(key, f"{_shown(value)} is no list of numbers")
        return tuple(map(float, value))

    def section(self, key: str) -> "Config":
        """Return the object under `key`, empty if it is absent; ModelFileError else."""
        value = self._values.get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.wrong(key, f"{_shown(value)} is no object")
        return Config(self.path, value, f"{self._prefix}{key}.")

    def wrong(self, key: str, reason: str) -> ModelFileError:
        """Return the error that `key` holds what it cannot hold."""
        return ModelFileError(self.path, reason, field=f"key '{self._prefix}{key}'")

    def unsupported(self, key: str) -> UnsupportedModel:
        """Return the error that this version cannot do what `key` asks for."""
        reason = f"{_shown(self._values.get(key))} is not supported here"
        return UnsupportedModel(self.path, reason, field=f"key '{self._prefix}{key}'")

    def must_be(self, key: str, *allowed: object) -> None:
        """Raise UnsupportedModel if `key` is present and none of `allowed`."""
        if key in self and self._values[key] not in allowed:
            raise self.unsupported(key)

    def _fetch(self, key: str, default: object) -> object:
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            raise self.wrong(key, "is missing")
        return value


def parse_config(path: Path, raw: bytes) -> Config:
    """Return the configuration in `raw`; ModelFileError if it is no strict JSON."""
    return Config(path, parse_object(path, raw, "config"))


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > 1 << 70:
        return "a huge number"
    return repr(value)[:_MAX_SHOWN]
