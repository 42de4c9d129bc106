"""How fast answers came, as whoever waits for them sees it.

Every streamed answer of a run counts: the time from the request to the first text, the
time a token takes after it (one figure an answer), and the gaps between the pieces of
the stream (all of them: a stall shows here). Requests are made one after the other, so
these are times of a backbone that does nothing else.

Percentiles are nearest-rank: p90 of ten values is the ninth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["StreamTimes", "latency_figures", "percentile"]

_RANKS: Final = {"p50": 50, "p90": 90, "p99": 99}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimes:
    """When the pieces of one answer came, in seconds after the request."""

    pieces_s: tuple[float, ...]
    n_tokens: int


def percentile(values: Sequence[float], rank: int) -> float:
    """Return the nearest-rank percentile of one value or more; `rank` 1 to 100."""
    return sorted(values)[max(1, math.ceil(rank / 100 * len(values))) - 1]


def latency_figures(answers: Sequence[StreamTimes]) -> dict[str, float]:
    """Return the percentiles of all answers; none of what no answer had."""
    told = [answer for answer in answers if answer.pieces_s]
    series = {
        "first_token": [answer.pieces_s[0] for answer in told],
        "per_token": [
            (answer.pieces_s[-1] - answer.pieces_s[0]) / (answer.n_tokens - 1)
            for answer in told
            if answer.n_tokens > 1
        ],
        "gap": [
            later - earlier
            for answer in told
            for earlier, later in zip(
                answer.pieces_s[:-1], answer.pieces_s[1:], strict=True
            )
        ],
    }
    return {
        f"{name}_{label}_s": percentile(values, rank)
        for name, values in series.items()
        if values
        for label, rank in _RANKS.items()
    }
