"""The files of a model as a manifest names them, and the pieces of them that are base.

The address space of a model is its files end to end. `base` pieces cover what is no
routed expert: the header of each file and every tensor that a backbone computes with.
They are short enough to be held in memory until their hash is known. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from mobile_worker.shards.addresses import AddressRefused, check_address
from mobile_worker.shards.bounds import (
    MAX_OFFSET,
    MAX_URL,
    ManifestError,
    check_digest,
    check_int,
    check_text,
)

__all__ = [
    "MAX_BASE_PIECES",
    "MAX_PIECE_BYTES",
    "BasePiece",
    "ModelFilePart",
    "check_base",
    "check_files",
    "file_starts",
]

MAX_BASE_PIECES = 1 << 16
MAX_PIECE_BYTES = 4 << 20
_MAX_FILES = 1024
_MAX_URLS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFilePart:
    """One file of a model: its size, and where it can be had, the best first."""

    n_bytes: int
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePiece:
    """A range of the address space that holds no expert, and its SHA-256."""

    offset: int
    n_bytes: int
    digest: bytes

    @property
    def end(self) -> int:
        """Where the next byte lies."""
        return self.offset + self.n_bytes


def file_starts(files: Sequence[ModelFilePart]) -> tuple[int, ...]:
    """Return where each file begins, and, last, where the last one ends."""
    return (0, *accumulate(file.n_bytes for file in files))


def check_files(files: Sequence[ModelFilePart]) -> None:
    """Refuse files that are out of bounds, or have no address that may be asked."""
    check_int("number of files", len(files), 0, _MAX_FILES)
    for file in files:
        check_int("file size", file.n_bytes, 1, MAX_OFFSET)
        check_int("number of sources", len(file.urls), 1, _MAX_URLS)
        for url in file.urls:
            check_text("source", url, limit=MAX_URL)
            try:
                check_address(url)
            except AddressRefused as exc:
                raise ManifestError(f"source {exc}") from exc
    if files:
        check_int("size of all files", file_starts(files)[-1], 1, MAX_OFFSET)


def check_base(
    base: Sequence[BasePiece],
    files: Sequence[ModelFilePart],
    experts: Sequence[tuple[int, int]],
) -> None:
    """Refuse pieces out of order, beyond the files or upon an expert's bytes.

    `experts` are the ranges (offset, bytes) of all experts, in any order; where there
    are files they lie within them, too.
    """
    check_int("number of base pieces", len(base), 0, MAX_BASE_PIECES)
    size = file_starts(files)[-1]
    for piece in base:
        check_int("base offset", piece.offset, 0, MAX_OFFSET)
        check_int("base length", piece.n_bytes, 1, MAX_PIECE_BYTES)
        check_digest("base digest", piece.digest)
        if piece.end > size:
            raise ManifestError(f"base piece at {piece.offset} is beyond the files")
    for before, after in pairwise(base):
        if after.offset < before.end:
            raise ManifestError(f"base piece at {after.offset} is out of order")
    if files:
        _check_apart(base, experts, size)


def _check_apart(
    base: Sequence[BasePiece], experts: Sequence[tuple[int, int]], size: int
) -> None:
    pieces = iter(base)
    piece = next(pieces, None)
    for offset, n_bytes in sorted(experts):
        if offset + n_bytes > size:
            raise ManifestError(f"an expert's bytes at {offset} are beyond the files")
        while piece is not None and piece.end <= offset:
            piece = next(pieces, None)
        if piece is not None and piece.offset < offset + n_bytes:
            reason = f"base piece at {piece.offset} lies upon an expert's bytes"
            raise ManifestError(reason)
