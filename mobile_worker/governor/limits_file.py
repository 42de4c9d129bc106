"""The file of limits in a worker's folder: read strictly, written whole or not at all.

Only what differs from the preset is written. A key or a value that cannot be is refused
with the file's and the key's name: a limit is never ignored in silence. A file that is
not there means the preset quiet.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.limit_keys import LIMIT_KEYS, changed
from mobile_worker.governor.limits import Limits, Preset
from mobile_worker.governor.presets import PRESETS

__all__ = ["LIMITS_FILE", "limits_text", "parse_limits", "read_limits", "write_limits"]

LIMITS_FILE: Final = "limits.toml"
_MAX_BYTES: Final = 1 << 14
_TABLES: Final = ("limits", "when")


def read_limits(path: Path) -> Limits:
    """Return the limits that a file sets.

    Raises:
        LimitsRefused: it cannot be read, is larger than 16 KiB, or holds what no limit
            can be.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):  # nothing is there
        return PRESETS[Preset.QUIET]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LimitsRefused(f"the limits {path} cannot be read: {reason}") from error
    if len(raw) > _MAX_BYTES:
        raise LimitsRefused(f"the limits {path} are larger than {_MAX_BYTES} bytes")
    try:
        return parse_limits(raw.decode("utf-8"))
    except LimitsRefused as error:
        raise LimitsRefused(f"{path}: {error}", advice=error.advice) from error
    except (ValueError, RecursionError) as error:
        raise LimitsRefused(
            f"the limits {path} are no TOML",
            advice="correct the file, or remove it for the preset quiet",
        ) from error


def parse_limits(text: str) -> Limits:
    """Return the limits of a file's text.

    Raises:
        LimitsRefused: a table, a key or a value that cannot be.
        ValueError, RecursionError: it is no TOML.
    """
    values: dict[str, str] = {}
    for name, table in tomllib.loads(text).items():
        if name not in _TABLES or not isinstance(table, dict):
            raise LimitsRefused(
                f"{name[:40]!r} is no table of limits",
                advice="the tables are [limits] and [when]",
            )
        values |= _values(name, table)
    return changed(PRESETS[Preset.QUIET], values)


def limits_text(limits: Limits) -> str:
    """Return the text of a file that sets these limits."""
    usual = PRESETS[limits.preset]
    lines: list[str] = []
    for table in _TABLES:
        lines += [f"[{table}]"]
        for key in LIMIT_KEYS.values():
            value = key.show(limits)
            is_said = key.name == "preset" or value != key.show(usual)
            if key.table == table and is_said:
                bare = value.isdigit() or value in {"true", "false"}
                lines.append(f"{key.name} = {value if bare else _quoted(value)}")
    return "\n".join(lines) + "\n"


def write_limits(path: Path, limits: Limits) -> None:
    """Write the file, whole or not at all.

    Raises:
        LimitsRefused: it cannot be written; what was there is unchanged.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(limits_text(limits), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LimitsRefused(
            f"the limits {path} cannot be written: {reason}",
            advice="name a data folder that can be written with --data",
        ) from error


def _values(table: str, found: Mapping[str, Any]) -> dict[str, str]:
    values = {}
    for name, value in found.items():
        key = LIMIT_KEYS.get(name)
        if key is None or key.table != table:
            names = [each.name for each in LIMIT_KEYS.values() if each.table == table]
            raise LimitsRefused(
                f"[{table}] has no {name[:40]!r}",
                advice=f"it has {', '.join(names)}",
            )
        values[name] = _as_text(name, value)
    return values


def _as_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return str(value)
    raise LimitsRefused(
        f"{name} cannot be {type(value).__name__}",
        advice=f"it may be {LIMIT_KEYS[name].may_be}",
    )


def _quoted(value: str) -> str:
    return f'"{value}"'
