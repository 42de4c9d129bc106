"""Which workers are slow, told by comparison with their peers; and when to ask again.

A worker that answers rightly and takes many times as long as others is no failure, but
every layer that asks it waits for it. So it gets nothing that another can compute, and
now and then a probe (hedges.py): one call that another was asked for as well. Rules:

- a worker is compared with the median of those of its tier, once enough is known of it;
- it is slow above `SLOW` times that and `MARGIN_S`, until it is below `QUICK` times it;
- probes come after 1 s, then in twice the time each, up to 60 s. What a probe shows
  replaces what was known: one quick answer is enough to be asked again, and whoever is
  slow after all is soon found out, at the price of a hedge or two.

Pure; times are the caller's monotonic seconds.
"""

from collections.abc import Iterable, Mapping
from statistics import median_low

from p2pmoe.backbone.cost import WorkerCost
from p2pmoe.backbone.plan import Tier
from relay.keys import PeerId

__all__ = ["ProbeTimes", "slow_workers"]

SLOW = 3.0
QUICK = 2.0
MARGIN_S = 0.005
TYPICAL_ROWS = 4
TYPICAL_BYTES = 16 * 1024
FIRST_PROBE_S = 1.0
LONGEST_PROBE_S = 60.0


def slow_workers(
    workers: Iterable[tuple[PeerId, Tier, WorkerCost]], slow: Iterable[PeerId]
) -> set[PeerId]:
    """Return which of some live workers are slow, given which of them were so far."""
    known = [(p, tier, _typical_s(cost)) for p, tier, cost in workers if cost.is_known]
    by_tier: dict[Tier, list[float]] = {}
    for _, tier, seconds in known:
        by_tier.setdefault(tier, []).append(seconds)
    middle = {tier: median_low(values) for tier, values in by_tier.items()}
    before = set(slow)
    return {
        peer
        for peer, tier, seconds in known
        if seconds > (QUICK if peer in before else SLOW) * middle[tier] + MARGIN_S
    }


class ProbeTimes:
    """When each slow worker is to be probed next."""

    def __init__(self) -> None:
        """Begin without slow workers."""
        self._next: dict[PeerId, tuple[float, float]] = {}  # when, and the wait after

    @property
    def slow(self) -> Mapping[PeerId, object]:
        """The slow workers; replaced by `update`, never changed in place."""
        return self._next

    def update(self, slow: Iterable[PeerId], now: float) -> bool:
        """Take in who is slow now; True if that has changed."""
        before = self._next
        self._next = {
            peer: before.get(peer, (now + FIRST_PROBE_S, 2 * FIRST_PROBE_S))
            for peer in slow
        }
        return before.keys() != self._next.keys()

    def is_due(self, peer: PeerId, now: float) -> bool:
        """Whether a worker is slow and to be probed."""
        entry = self._next.get(peer)
        return entry is not None and entry[0] <= now

    def probed(self, peer: PeerId, now: float) -> None:
        """Note that a probe was sent."""
        wait_s = self._next[peer][1]
        next_wait_s = min(2 * wait_s, LONGEST_PROBE_S)
        self._next = {**self._next, peer: (now + wait_s, next_wait_s)}


def _typical_s(cost: WorkerCost) -> float:
    return cost.measured_s(TYPICAL_ROWS, TYPICAL_BYTES) * cost.risk
