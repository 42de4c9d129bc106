"""How work is cut into parts of about equal size for threads; pure functions."""

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["Piece", "split_calls", "split_rows"]

Piece = tuple[int, int, int]  # call, its first row, its end

_TILE = 16  # rows of output that a kernel does at once


def split_rows(n_rows: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut 0..n_rows into at most n_parts ranges of whole tiles."""
    tiles = -(-n_rows // _TILE)
    n_parts = max(1, min(n_parts, tiles))
    cuts = [min(n_rows, _TILE * (tiles * i // n_parts)) for i in range(n_parts + 1)]
    return list(pairwise(cuts))


def split_calls(
    work: Sequence[int], n_rows: Sequence[int], n_parts: int
) -> list[list[Piece]]:
    """Cut calls into at most n_parts lists of about equal work.

    Calls follow each other; one is cut at a row where a part is full. `work` is what
    each call costs, `n_rows` how many rows it has.
    """
    share = sum(work) / n_parts
    parts: list[list[Piece]] = [[]]
    room = share
    for call, (cost, rows) in enumerate(zip(work, n_rows, strict=True)):
        first = 0
        while first < rows:
            per_row = cost / rows
            fitting = max(1, round(room / per_row)) if per_row else rows
            end = min(rows, first + fitting)
            parts[-1].append((call, first, end))
            room -= per_row * (end - first)
            first = end
            if room < per_row / 2 and len(parts) < n_parts:
                parts.append([])
                room += share
    return [part for part in parts if part]
