"""The file of `p2pmoe relay --limits`: what each rate class may send and hold.

    [phone]                  # phone, laptop or hub: the --rate of an invite
    bytes_s = 2097152        # bytes a second
    burst = 1048576          # bytes above that at once
    frames_s = 2000          # frames a second
    queue_bytes = 262144     # bytes that may wait for the peer, in each of two classes

TOML; what is left out is as without the file. The names are those of the LIMITS frame,
and each number is bounded: no limit may be lower than what one frame needs.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.folder import read_bounded
from relay.frame_types import Limits
from relay.live import DEFAULT_RATES
from relay.tokens import RateClass

__all__ = ["parse_limits", "read_limits"]

_MAX_FILE_BYTES: Final = 1 << 14
_KIB: Final = 1024
_BOUNDS: Final = {
    "bytes_s": (_KIB, 4096 * _KIB * _KIB - 1),
    "burst": (64 * _KIB, 4096 * _KIB * _KIB - 1),
    "frames_s": (1, 1_000_000),
    "queue_bytes": (64 * _KIB, 256 * _KIB * _KIB),
}


def read_limits(path: Path | None) -> Mapping[RateClass, Limits]:
    """Return the limits of every class; without a file those that are built in.

    Raises:
        ConfigurationError: the file cannot be read, or a setting in it cannot be.
    """
    if path is None:
        return DEFAULT_RATES
    raw = read_bounded(path, _MAX_FILE_BYTES)
    if raw is None:
        raise ConfigurationError(
            f"there is no limits file {path}", advice="name another with --limits"
        )
    try:
        return parse_limits(raw.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        reason = _printable(exc)
        raise ConfigurationError(
            f"limits file {path}: {reason:.300}",
            advice="see docs/reference/relay-limits.md for what it may say",
        ) from exc


def parse_limits(text: str) -> Mapping[RateClass, Limits]:
    """Return the limits of every class by a file's text.

    Raises:
        ValueError: it is no TOML, or names or holds what cannot be.
    """
    rates = dict(DEFAULT_RATES)
    for name, table in tomllib.loads(text).items():
        rate_class = _classes().get(name)
        if rate_class is None:
            raise ValueError(f"{name[:60]!r} is no rate class")
        if not isinstance(table, dict):
            raise ValueError(f"{name} is no table")  # noqa: TRY004 - one kind for all
        rates[rate_class] = replace(rates[rate_class], **_checked(name, table))
    return rates


def _printable(exc: Exception) -> str:
    """Return the reason on one line; what the file holds may be anything."""
    if isinstance(exc, RecursionError):
        return "it is nested too deeply"
    return "".join(each if each.isprintable() else "?" for each in str(exc)).lower()


def _classes() -> dict[str, RateClass]:
    return {each.name.lower(): each for each in RateClass}


def _checked(name: str, table: Mapping[str, Any]) -> dict[str, int]:
    for key, value in table.items():
        if key not in _BOUNDS:
            raise ValueError(f"{name}.{key[:60]} names no limit")
        least, most = _BOUNDS[key]
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name}.{key} is not a number from {least} to {most}")
    return dict(table)
