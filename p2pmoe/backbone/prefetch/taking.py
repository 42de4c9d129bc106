"""One fetch as its decode thread sees it: what came of it, and what it says of links.

`Taking` turns replies into checked weights and, at the end, tells `LinkRates` how each
worker did: whole and in time, late, gone, or wrong. No waiting in here.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardCorrupt, ShardError
from p2pmoe.backbone.prefetch.checking import ShardChecker
from p2pmoe.backbone.prefetch.fetch_work import Came, FetchReply, Lack, Wanted
from p2pmoe.backbone.prefetch.figures import PrefetchFigures
from p2pmoe.backbone.prefetch.link_rates import LinkRates
from relay.keys import PeerId

__all__ = ["Taking"]

log = logging.getLogger("p2pmoe.backbone")


@dataclass(slots=True)
class _Asked:
    """One worker's part of a fetch."""

    n_bytes: int = 0
    came_bytes: int = 0
    first_at: float | None = None
    last_at: float = 0.0
    n_lacking: int = 0


class Taking:
    """Replies to one fetch, for one thread."""

    def __init__(
        self,
        wanted: Iterable[Wanted],
        started_at: float,
        sizes: Mapping[ExpertId, int],
        checker: ShardChecker,
    ) -> None:
        """Begin with everything asked for and nothing here."""
        self._sizes = sizes
        self._checker = checker
        self._started_at = started_at
        self._asked: dict[PeerId, _Asked] = {}
        self._wrong: set[PeerId] = set()
        self.lacks: dict[Lack, int] = {}
        self.came_bytes = 0
        self.n_open = 0
        for one in wanted:
            asked = self._asked.setdefault(one.peer, _Asked())
            asked.n_bytes += sizes[one.expert]
            self.n_open += 1

    def take(self, reply: FetchReply) -> tuple[ExpertId, ExpertWeights] | None:
        """Return the weights that came, checked; None if none did."""
        self.n_open -= 1
        peer, expert = reply.wanted.peer, reply.wanted.expert
        if not isinstance(reply, Came):
            self._lack(peer, reply.why)
            return None
        asked = self._asked[peer]
        asked.came_bytes += len(reply.shard)
        if asked.first_at is None:
            asked.first_at = reply.at
        asked.last_at = max(asked.last_at, reply.at)
        self.came_bytes += len(reply.shard)
        try:
            return expert, self._checker.weights(expert, reply.shard)
        except ShardCorrupt as error:
            log.warning("worker %s: %s", peer.hex()[:8], error)
            self._lack(peer, Lack.WRONG)
        except (ShardError, ArithmeticRefused) as error:
            log.warning("a fetched expert cannot be used: %s", error)
        return None

    @property
    def seconds(self) -> float:
        """From the start to the last shard that came."""
        last_at = max((a.last_at for a in self._asked.values()), default=0.0)
        return max(0.0, last_at - self._started_at)

    def settle(
        self, rates: LinkRates, rtts: Mapping[PeerId, float], now: float
    ) -> None:
        """Tell how each worker did; what has not come by now is late.

        `rtts` are the round trips of dispatches to these workers, seconds.
        """
        for peer, asked in self._asked.items():
            seconds = asked.last_at - self._started_at
            if asked.first_at is not None:
                rates.answered(peer, asked.first_at - self._started_at)
            if peer in self._wrong:
                rates.wrong(peer)
            elif asked.n_lacking:
                rates.failed(peer, now)
            elif asked.came_bytes == asked.n_bytes:
                rates.took(peer, asked.n_bytes, seconds, rtts[peer])
            else:
                elapsed_s = now - self._started_at
                rates.late(peer, asked.came_bytes, elapsed_s, rtts[peer])
                if not asked.came_bytes:
                    rates.failed(peer, now)
        if self.n_open:
            self.lacks[Lack.LATE] = self.lacks.get(Lack.LATE, 0) + self.n_open

    def count(self, figures: PrefetchFigures) -> None:
        """Add what came, and what did not, to the totals."""
        figures.n_bytes += self.came_bytes
        for why, n in self.lacks.items():
            figures.lacks[why] += n

    def _lack(self, peer: PeerId, why: Lack) -> None:
        self.lacks[why] = self.lacks.get(why, 0) + 1
        self._asked[peer].n_lacking += 1
        if why is Lack.WRONG:
            self._wrong.add(peer)
