"""How much each expert of a deployment is used, and what is wanted of it therefore.

A backbone reports rows routed to each expert since its last report; the reports are
added into a moving sum whose half-life is 5 minutes, so that a report lost on the way
or a short burst changes little. Demand is then a multiple of the mean over all experts.
Reports guide placement alone; no money follows from them.

Pure. Source: design/06, "Price" (q) and "Assignment" (targets, floors, tail).
"""

import statistics
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.coverage import floor_of, replica_target
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.wanted import Wanted

__all__ = [
    "HALF_LIFE_S",
    "REPLICA_SHARE",
    "DemandAverage",
    "Shard",
    "TokenRate",
    "wanted_of",
]

HALF_LIFE_S = 300.0
# One replica bears this many times the mean demand before a second one is wanted.
REPLICA_SHARE = 8.0
_EVEN_SHARE = 0.05
_RATE_WINDOW_S = 10.0
_MAX_TOKENS_S = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What the market needs to know of one expert of a manifest."""

    key: ExpertKey
    expert: ExpertId
    n_bytes: int
    digest: bytes


class DemandAverage:
    """The moving sum of rows for each expert of one deployment."""

    def __init__(self) -> None:
        self._sums: dict[ExpertId, float] = {}
        self._as_of = 0.0

    def report(self, counts: Iterable[tuple[ExpertId, int]], now: float) -> None:
        """Add one report, made at `now` (monotonic seconds)."""
        fade = 0.5 ** (max(0.0, now - self._as_of) / HALF_LIFE_S)
        self._as_of = now
        for expert in self._sums:
            self._sums[expert] *= fade
        for expert, count in counts:
            self._sums[expert] = self._sums.get(expert, 0.0) + count

    def relative(self, experts: Sequence[ExpertId]) -> Mapping[ExpertId, float]:
        """Return each expert's demand as a multiple of the mean; all 1 if unknown.

        A share of 5 % is spread evenly: short profiles lie, and an expert not used in
        5 prompts is mostly used in 100.
        """
        total = sum(self._sums.get(expert, 0.0) for expert in experts)
        if total <= 0.0:
            return dict.fromkeys(experts, 1.0)
        scale = (1.0 - _EVEN_SHARE) * len(experts) / total
        return {
            expert: _EVEN_SHARE + self._sums.get(expert, 0.0) * scale
            for expert in experts
        }


class TokenRate:
    """Tokens a second of one deployment, as its backbone reports them."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, float, int]] = deque(maxlen=64)
        self._last_at: float | None = None

    def report(self, n_tokens: int, now: float) -> None:
        """Add a report at `now` (monotonic seconds); the first has no known span."""
        if self._last_at is not None:
            self._reports.append((self._last_at, now, n_tokens))
        self._last_at = now

    def per_s(self, now: float) -> float:
        """Return the rate over the reports of the last 10 s, at most a million."""
        while self._reports and self._reports[0][1] < now - _RATE_WINDOW_S:
            self._reports.popleft()
        if not self._reports:
            return 0.0
        span_s = self._reports[-1][1] - self._reports[0][0]
        total = sum(n_tokens for _, _, n_tokens in self._reports)
        return min(total / max(span_s, 1.0), _MAX_TOKENS_S)


def wanted_of(
    shards: Sequence[Shard],
    demand: Mapping[ExpertId, float],
    at_hand: Collection[ExpertId],
    *,
    has_disk: bool,
) -> list[Wanted]:
    """Return what is wanted of each expert, given its demand in multiples of the mean.

    The tail, which phones may hold, is what has at most the median demand of the
    experts that the backbone has not at hand (of all, if it has every one).
    """
    floor = floor_of(has_disk=has_disk)
    away = [demand[s.expert] for s in shards if s.expert not in at_hand]
    limit = statistics.median(away or [demand[s.expert] for s in shards] or [0.0])
    return [
        Wanted(
            key=shard.key,
            n_bytes=shard.n_bytes,
            demand=demand[shard.expert],
            target=replica_target(
                demand[shard.expert], replica_rate=REPLICA_SHARE, floor=floor
            ),
            floor=floor,
            at_hand=shard.expert in at_hand,
            in_tail=demand[shard.expert] <= limit,
        )
        for shard in shards
    ]
