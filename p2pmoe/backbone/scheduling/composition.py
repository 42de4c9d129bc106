"""Which rows the next step of a lane has.

A sequence that decodes has one row. All of them go into the step, within `max_rows`;
those that were left out longest come first. Beside them go up to `chunk_rows` rows of
prompts: the oldest has at least half of them, the shortest rest of a prompt comes next,
so that a short prompt does not wait for a long one and a long one is never starved.
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Demand", "share_rows"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a sequence still has to run, and how many steps it was left out of."""

    n_pending: int  # >= 1; 1 is decoding, or the end of a prompt
    n_waited: int = 0


def share_rows(
    demands: Sequence[Demand], *, chunk_rows: int, max_rows: int
) -> list[int]:
    """Return the rows that each sequence gets, 0 for none; `demands` oldest first.

    At least one row is given if anybody asks; prompts have at least a quarter of
    `max_rows` when it is short.
    """
    rows = [0] * len(demands)
    prompts = [i for i, own in enumerate(demands) if own.n_pending > 1]
    singles = [i for i, own in enumerate(demands) if own.n_pending == 1]
    singles.sort(key=lambda i: -demands[i].n_waited)  # stable: then the oldest
    for_prompts = min(chunk_rows, max(1, max_rows // 4)) if prompts else 0
    n_singles = max(0, max_rows - for_prompts)
    for i in singles[:n_singles]:
        rows[i] = 1
    left = min(chunk_rows, max(for_prompts, max_rows - min(len(singles), n_singles)))
    if not prompts:
        return rows
    oldest = prompts[0]
    rows[oldest] = min(demands[oldest].n_pending, -(-left // 2))
    left -= rows[oldest]
    for i in sorted(prompts, key=lambda i: demands[i].n_pending - rows[i]):
        more = min(left, demands[i].n_pending - rows[i])
        rows[i] += more
        left -= more
    return rows
