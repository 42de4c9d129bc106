"""Sizes as people write them: `512M`, `1.5G`, `4096`; binary units, strict.

A size is digits, perhaps a decimal fraction, perhaps one of K, M, G, T (1024, 1024^2
and so on; a following `iB` or `B` is allowed). Anything else is an error that names
the option; nothing is rounded silently except the last byte of a fraction.
"""

import re

from p2pmoe.errors import ConfigurationError

__all__ = ["format_size", "parse_size"]

_SIZE = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?(?:([KMGT])(?:i?B)?)?", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MAX_BYTES = 1 << 50


def parse_size(text: str, *, option: str) -> int:
    """Return the bytes that `text` stands for.

    Args:
        text: such as `512M`.
        option: the option it was given to, for the error.

    Raises:
        ConfigurationError: it is no size, zero, or above 1024 T.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[2] and not match[3]):
        raise ConfigurationError(
            f"{option} {text!r} is no size", advice="write it like 512M or 1.5G"
        )
    whole, fraction, unit = match[1], match[2] or "", match[3] or ""
    n_bytes: int = int(whole + fraction) * _UNITS[unit] // 10 ** len(fraction)
    if not 0 < n_bytes <= _MAX_BYTES:
        raise ConfigurationError(
            f"{option} {text!r} is {n_bytes} bytes",
            advice=f"give more than 0 and at most {format_size(_MAX_BYTES)}",
        )
    return n_bytes


def format_size(n_bytes: int) -> str:
    """Return a size for people, with one decimal where it is not whole."""
    for unit in ("T", "G", "M", "K"):
        n_unit = _UNITS[unit]
        if n_bytes >= n_unit:
            if n_bytes % n_unit == 0:
                return f"{n_bytes // n_unit}{unit}"
            return f"{n_bytes / n_unit:.1f}{unit}"
    return f"{n_bytes}B"
