"""The files beside a folder's weights: plain ones, and JSON objects with typed reads.

A file must lie where weights may lie, and is refused by its size before it is read
(`weights.huggingface.weight_files`). JSON is read by `weights.huggingface.strict_json`,
and refused if it nests deeper than a tokenizer needs. The fields of an object are taken
by typed reads that name the file and the field.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from p2pmoe.text.errors import TokenizerError
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.strict_json import parse_object
from p2pmoe.weights.huggingface.weight_files import is_there, read_small

__all__ = ["JsonObject", "read_beside", "read_json"]

_MAX_DEPTH = 32

T = TypeVar("T")


class JsonObject:
    """One object of a file; `place` says where it stands, for messages."""

    def __init__(self, place: str, fields: Mapping[str, object]) -> None:
        """Wrap the fields."""
        self.place = place
        self.fields = fields

    def __contains__(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def of_type(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return a field of exactly this type; null counts as missing.

        Raises:
            TokenizerError: It is of another type, or missing without a default.
        """
        value = self.fields.get(name)
        if value is None:
            if default is None:
                raise self.wrong(name, "is missing")
            return default
        if type(value) is not kind:
            raise self.wrong(name, f"is no {kind.__name__}")
        return value

    def child(self, name: str) -> "JsonObject":
        """Return an object in a field; raises as `of_type`."""
        return JsonObject(f"{self.place} {name}", self.of_type(name, dict))

    def children(self, name: str) -> list["JsonObject"]:
        """Return the objects of a list in a field, none if it is missing."""
        items = self.of_type(name, list, [])
        if not all(isinstance(item, dict) for item in items):
            raise self.wrong(name, "is no list of objects")
        place = f"{self.place} {name}"
        return [JsonObject(f"{place} {n}", item) for n, item in enumerate(items)]

    def wrong(self, name: str, reason: str) -> TokenizerError:
        """Return the error that says what is wrong with a field."""
        return TokenizerError(f"{self.place}: {name!r} {reason}")


def read_json(folder: Path, name: str, max_bytes: int) -> JsonObject | None:
    """Return the object in a file of the folder, or None if there is no such file.

    Raises:
        TokenizerError: It cannot be read, is too large, or is no strict JSON object.
    """
    raw = read_beside(folder, name, max_bytes)
    if raw is None:
        return None
    path = folder / name
    try:
        value = parse_object(path, raw, "JSON", max_depth=_MAX_DEPTH)
    except ModelFileError as exc:
        raise TokenizerError(str(exc)) from exc
    return JsonObject(str(path), value)


def read_beside(folder: Path, name: str, max_bytes: int) -> bytes | None:
    """Return what is in a file of the folder, or None if there is no such file.

    Raises:
        TokenizerError: It cannot be read, is larger than `max_bytes`, no regular file,
            or a link that leads out of the folder.
    """
    if not is_there(folder / name):
        return None
    try:
        return read_small(folder, name, max_bytes)
    except ModelFileError as exc:
        raise TokenizerError(str(exc), advice=exc.advice) from exc
