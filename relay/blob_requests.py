"""A request for a content-addressed file and the head of its answer. No I/O.

    GET /blob/<64 hex digits>    the file with this SHA-256; Range of one range

What a hash names never changes, so every answer may be kept for ever (RFC 9111 and
8246); its ETag is the hash. A Range that is none, or names several ranges, is ignored
as RFC 9110 (14.2) allows: the whole file is the answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["BLOB_PATH", "BlobSpan", "blob_headers", "blob_name", "not_modified", "span"]

BLOB_PATH: Final = "/blob/"
_NAME: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSpan:
    """The bytes that answer a request: `status` 200, 206, or 416 with none."""

    status: int
    first: int = 0
    n_bytes: int = 0


def blob_name(path: str) -> str | None:
    """Return the hash that a path names, in hex; None if it names none."""
    name = path.removeprefix(BLOB_PATH)
    return name if path.startswith(BLOB_PATH) and _NAME.fullmatch(name) else None


def not_modified(headers: Mapping[str, str], name: str) -> bool:
    """Tell whether the client has the file already; `headers` by lower-case name."""
    told = headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in told.split(",")}
    return f'"{name}"' in tags or told.strip() == "*"


def span(headers: Mapping[str, str], total: int) -> BlobSpan:
    """Return which bytes of a file of `total` bytes are asked for."""
    match = _RANGE.fullmatch(headers.get("range", "").strip())
    whole = BlobSpan(status=200, n_bytes=total)
    if match is None or match[1] == match[2] == "":
        return whole
    if not match[1]:  # the last so many bytes
        n_bytes = min(int(match[2]), total)
        first = total - n_bytes
    else:
        first = int(match[1])
        last = min(int(match[2]), total - 1) if match[2] else total - 1
        if match[2] and int(match[2]) < first:
            return whole
        n_bytes = last - first + 1
    if n_bytes <= 0:
        return BlobSpan(status=416)
    return BlobSpan(status=206, first=first, n_bytes=n_bytes)


def blob_headers(name: str, wanted: BlobSpan, total: int) -> dict[str, str]:
    """Return the headers of an answer, beyond type and length."""
    if wanted.status == 416:
        return {"Content-Range": f"bytes */{total}"}
    headers = {
        "ETag": f'"{name}"',
        "Cache-Control": "public, max-age=31536000, immutable",
        "Accept-Ranges": "bytes",
    }
    if wanted.status == 206:
        last = wanted.first + wanted.n_bytes - 1
        headers["Content-Range"] = f"bytes {wanted.first}-{last}/{total}"
    return headers
