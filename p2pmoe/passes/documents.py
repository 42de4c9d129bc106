"""A pass as a JSON object, in the API's answers and in trace files; and back.

    {"start_s": 12.5, "seconds": 0.08, "n_layers": 7, "trips": 2, "wait_s": 0.06,
     "drafter": "self", "n_drafted": 4, "n_accepted": 3, "n_committed": 4, "why": "...",
     "layers": [{"layer": 2, "start_s": 0.01, "missing": [3, 17], "wait_s": 0.03, ...}]}

Names are those of `PassTrace` and `LayerTrace`; what has its default value (zero,
empty) is left out, and reads as that. Whoever wrote an object, reading it takes bounded
memory and gives finite numbers of a reasonable size, or raises `PassUnreadable`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, TypeVar

from p2pmoe.passes.values import LayerTrace, PassTrace

__all__ = ["MAX_LAYERS", "MAX_MISSING", "PassUnreadable", "pass_document", "read_pass"]

MAX_LAYERS: Final = 1 << 12
MAX_MISSING: Final = 1 << 12
_MAX_COUNT: Final = 1 << 48
_MAX_SECONDS: Final = 1e12
_MAX_TEXT: Final = 1000
_DIGITS: Final = 7  # behind the point: tenths of a microsecond

T = TypeVar("T", LayerTrace, PassTrace)


class PassUnreadable(ValueError):
    """An object is no pass; one lower-case line."""


def pass_document(told: PassTrace) -> dict[str, object]:
    """Return the JSON object of a pass."""
    document = _document(told)
    if told.layers:
        document["layers"] = [_document(layer) for layer in told.layers]
    return document


def read_pass(value: object) -> PassTrace:
    """Return the pass that a JSON value holds; PassUnreadable else.

    Fields that are not known here are passed over.
    """
    whole = _mapping(value, "a pass")
    layers = _list(whole, "layers", MAX_LAYERS)
    read = [_read(LayerTrace, _mapping(layer, "a layer")) for layer in layers]
    return _read(PassTrace, whole, layers=tuple(read))


def _document(told: PassTrace | LayerTrace) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in fields(told):
        value = getattr(told, each.name)
        if each.name == "layers" or value == each.default:
            continue
        if isinstance(value, float):
            value = round(value, _DIGITS)
        found[each.name] = list(value) if isinstance(value, tuple) else value
    return found


def _read(kind: type[T], values: Mapping[str, Any], **given: object) -> T:
    found: dict[str, Any] = dict(given)
    for each in fields(kind):
        if each.name in found:
            continue
        default = 0 if each.default is MISSING else each.default
        if each.type in (float, "float"):
            found[each.name] = _seconds(values, each.name)
        elif each.type in (int, "int"):
            found[each.name] = _count(values, each.name, default)
        elif each.type in (str, "str"):
            found[each.name] = _text(values, each.name)
        else:
            found[each.name] = _experts(values, each.name)
    return kind(**found)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PassUnreadable(f"{what} is no object")
    return value


def _list(values: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = values.get(name, [])
    if not isinstance(value, list) or len(value) > most:
        raise PassUnreadable(f"{name} of a pass is no list of at most {most}")
    return value


def _count(values: Mapping[str, Any], name: str, default: object) -> int:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PassUnreadable(f"{name} of a pass is no count")
    if not 0 <= value <= _MAX_COUNT:
        raise PassUnreadable(f"{name} of a pass is out of bounds")
    return value


def _seconds(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PassUnreadable(f"{name} of a pass is no time")
    if not 0 <= value <= _MAX_SECONDS:  # nor NaN
        raise PassUnreadable(f"{name} of a pass is out of bounds")
    return float(value)


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise PassUnreadable(f"{name} of a pass is no short text")
    return value


def _experts(values: Mapping[str, Any], name: str) -> tuple[int, ...]:
    found = _list(values, name, MAX_MISSING)
    if any(isinstance(each, bool) or not isinstance(each, int) for each in found):
        raise PassUnreadable(f"{name} of a pass are no experts")
    if any(not 0 <= each <= _MAX_COUNT for each in found):
        raise PassUnreadable(f"{name} of a pass is out of bounds")
    return tuple(found)
