"""A model file's metadata: a mapping, and typed reads that name the file and key.

Values are bool, int, float, str, or a tuple of one of these. A typed read refuses a
value of another type or out of bounds; without a default, a missing key is an error.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from p2pmoe.weights.errors import ModelFileError

__all__ = ["Metadata", "MetadataValue", "Scalar"]

Scalar = bool | int | float | str
MetadataValue = Scalar | tuple[Scalar, ...]

_MAX_INT = (1 << 63) - 1


class Metadata(Mapping[str, MetadataValue]):
    """All key-value pairs of one file."""

    def __init__(self, path: Path, values: Mapping[str, MetadataValue]) -> None:
        """Wrap `values`; `path` is for messages."""
        self._path = path
        self._values = dict(values)

    def __getitem__(self, key: str) -> MetadataValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        low: int = 0,
        high: int = _MAX_INT,
    ) -> int:
        """Return an integer in low..high; ModelFileError else.

        An array that repeats one value, as some writers give a size for each layer,
        counts as that value.
        """
        value = self._fetch(key, default)
        if isinstance(value, tuple) and value:
            if len(set(value)) > 1:
                raise self._wrong(key, "differs from layer to layer")
            value = value[0]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "is no integer")
        if not low <= value <= high:
            raise self._wrong(key, f"{value} is not in {low}..{high}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """Return a finite float (integers count); ModelFileError else."""
        value = self._fetch(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(key, "is no number")
        if not math.isfinite(value):
            raise self._wrong(key, f"{value} is not finite")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean; ModelFileError else."""
        value = self._fetch(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "is no boolean")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; ModelFileError else."""
        value = self._fetch(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "is no string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an array of strings; ModelFileError else."""
        items = self._items(key)
        texts = tuple(item for item in items if isinstance(item, str))
        if len(texts) != len(items):
            raise self._wrong(key, "is no array of strings")
        return texts

    def integers(self, key: str) -> tuple[int, ...]:
        """Return an array of integers; ModelFileError else."""
        items = self._items(key)
        numbers = tuple(
            item
            for item in items
            if isinstance(item, int) and not isinstance(item, bool)
        )
        if len(numbers) != len(items):
            raise self._wrong(key, "is no array of integers")
        return numbers

    def flags(self, key: str) -> tuple[bool, ...]:
        """Return an array of booleans; ModelFileError else."""
        items = self._items(key)
        flags = tuple(item for item in items if isinstance(item, bool))
        if len(flags) != len(items):
            raise self._wrong(key, "is no array of booleans")
        return flags

    def reals(self, key: str) -> tuple[float, ...]:
        """Return an array of finite floats; ModelFileError else."""
        items = self._items(key)
        numbers = tuple(
            item for item in items if isinstance(item, float) and math.isfinite(item)
        )
        if len(numbers) != len(items):
            raise self._wrong(key, "is no array of finite floats")
        return numbers

    def _items(self, key: str) -> tuple[Scalar, ...]:
        value = self._fetch(key, None)
        if not isinstance(value, tuple):
            raise self._wrong(key, "is no array")
        return value

    def _fetch(self, key: str, default: Scalar | None) -> MetadataValue:
        value = self._values.get(key, default)
        if value is None:
            raise self._wrong(key, "is missing")
        return value

    def _wrong(self, key: str, reason: str) -> ModelFileError:
        return ModelFileError(self._path, reason, field=f"key {key!r}")
