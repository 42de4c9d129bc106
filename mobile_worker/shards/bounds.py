"""The bounds of what a manifest says: one check for each kind of value.

Every number and text from outside passes one of these before it is used. Pure.
"""

from mobile_worker.errors import RemoteError

__all__ = [
    "MAX_OFFSET",
    "MAX_URL",
    "ManifestError",
    "check_digest",
    "check_float",
    "check_int",
    "check_text",
]

MAX_OFFSET = 1 << 60
MAX_URL = 2048
_MAX_NAME = 200
_MAX_F32 = 3.4028234663852886e38  # the arithmetic uses such numbers as f32


class ManifestError(RemoteError):
    """A manifest breaks the format, a bound, or its own arithmetic."""


def check_int(what: str, value: object, low: int, high: int) -> None:
    """Refuse what is no integer in low..high."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ManifestError(f"{what} is no integer: {str(value)[:40]!r}")
    if not low <= value <= high:
        raise ManifestError(f"{what} {value} is not in {low}..{high}")


def check_float(what: str, value: object) -> None:
    """Refuse what is no finite f32."""
    if not isinstance(value, float) or not abs(value) <= _MAX_F32:  # nor NaN
        raise ManifestError(f"{what} is no finite f32: {str(value)[:40]!r}")


def check_text(what: str, value: object, *, limit: int = _MAX_NAME) -> None:
    """Refuse what is no printable text of 1 to `limit` characters."""
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise ManifestError(f"{what} is no text of 1 to {limit} characters")
    if not value.isprintable():
        raise ManifestError(f"{what} {value[:80]!r} holds control characters")


def check_digest(what: str, value: object, *, empty: bool = False) -> None:
    """Refuse what is no SHA-256; no bytes at all pass if it may be `empty`."""
    if not isinstance(value, bytes) or len(value) not in ({0, 32} if empty else {32}):
        raise ManifestError(f"{what} is not 32 bytes")
