"""Asking an HTTP server for a range of a file, and judging its answer; no I/O.

A server is a stranger: an answer counts only if it is exactly the range asked for, of
a file of the size that the manifest names, in no other coding (RFC 9110, sections 14
and 8.4). What it then sends is counted by `RangeBody`, so that a body too long is cut
where it ought to end and one too short is known. Whether the bytes are right, a hash
says later.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mobile_worker.shards.errors import SourceBroke, SourceRefused

__all__ = ["MAX_RETRY_S", "REDIRECTS", "FileRange", "RangeBody", "check_answer"]

MAX_RETRY_S = 60.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK, _PARTIAL = 200, 206
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """`n_bytes`, one or more, from `offset` of a file of `total` bytes."""

    offset: int
    n_bytes: int
    total: int

    def headers(self) -> dict[str, str]:
        """Return the request's headers."""
        last = self.offset + self.n_bytes - 1
        return {"Range": f"bytes={self.offset}-{last}", "Accept-Encoding": "identity"}


def check_answer(
    host: str, wanted: FileRange, status: int, headers: Mapping[str, str]
) -> None:
    """Refuse an answer to `wanted` that cannot be used; `headers` in lower case.

    Raises:
        SourceBroke: not now; ask again, not before its `retry_s`.
        SourceRefused: this server will never give these bytes.
    """
    if status in _LATER:
        raise SourceBroke(f"{host} answers {status}", retry_s=_retry_s(headers))
    is_whole = wanted.n_bytes == wanted.total
    if status == _OK and not is_whole:
        raise SourceRefused(f"{host} ignores Range: it would send the whole file")
    if status not in {_OK, _PARTIAL}:
        raise SourceRefused(f"{host} answers {status}")
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"", "identity"}:
        raise SourceRefused(f"{host} sends the file coded as {coding[:20]!r}")
    length = headers.get("content-length", "")
    if length and length != str(wanted.n_bytes):
        reason = f"{host} would send {length[:20]} bytes, not {wanted.n_bytes}"
        raise SourceRefused(reason)
    if status == _PARTIAL:
        _check_range(host, wanted, headers.get("content-range", ""))


def _check_range(host: str, wanted: FileRange, told: str) -> None:
    match = _CONTENT_RANGE.fullmatch(told.strip())
    first, last = wanted.offset, wanted.offset + wanted.n_bytes - 1
    if match is None or (int(match[1]), int(match[2])) != (first, last):
        raise SourceRefused(f"{host} sends {told[:60]!r}, not bytes {first}-{last}")
    if match[3] != "*" and int(match[3]) != wanted.total:
        reason = f"{host} has a file of {match[3]} bytes, not of {wanted.total}"
        raise SourceRefused(reason)


def _retry_s(headers: Mapping[str, str]) -> float:
    told = headers.get("retry-after", "").strip()
    is_number = told.isascii() and told.isdigit() and len(told) <= 9
    return min(float(told), MAX_RETRY_S) if is_number else 0.0


class RangeBody:
    """Counts what comes of one answer."""

    def __init__(self, host: str, n_bytes: int, *, is_most: bool = False) -> None:
        """Expect `n_bytes` from `host`, or, if that `is_most`, so many at most."""
        self._host = host
        self._beyond = (
            f"has more than {n_bytes} bytes"
            if is_most
            else "sends more bytes than were asked for"
        )
        self._left = n_bytes

    def take(self, chunk: bytes) -> bytes:
        """Return the chunk; SourceRefused if it goes beyond what was asked for."""
        if len(chunk) > self._left:
            raise SourceRefused(f"{self._host} {self._beyond}")
        self._left -= len(chunk)
        return chunk

    def end(self) -> None:
        """Note that the server is done; SourceBroke if bytes are missing."""
        if self._left:
            raise SourceBroke(f"{self._host} ended {self._left} bytes early")
