"""Experts that answer when a clock says so, in one thread and without sleeping."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from p2pmoe.backbone.prefill import Pipeline
from p2pmoe.model.experts import ExpertCaller, PendingExperts, Routing
from p2pmoe.model.walk import Walk

__all__ = ["Clock", "DistantExperts", "LinkSpeed"]


class Clock:
    """A clock that a thread sleeps on: it goes on when nothing else can."""

    def __init__(self) -> None:
        """Begin at 0 s."""
        self.now = 0.0
        self._moments: list[float] = []

    def at(self, moment: float) -> None:
        """Have something happen then."""
        heapq.heappush(self._moments, moment)

    def set(self) -> None:
        """What rings is seen when the clock goes on."""

    def clear(self) -> None:
        """Nothing is kept."""

    def wait(self) -> None:
        """Go on to the next moment."""
        while self._moments and self._moments[0] <= self.now:
            heapq.heappop(self._moments)
        self.now = heapq.heappop(self._moments)


class DistantExperts:
    """Right answers, `delay(layer)` seconds after they were asked for."""

    def __init__(
        self, experts: ExpertCaller, clock: Clock, delay: Callable[[int], float]
    ) -> None:
        """Have `experts` compute."""
        self._experts = experts
        self._clock = clock
        self._delay = delay
        self._n_begun = 0
        self.n_under_way = 0
        self.most_under_way = 0
        self.fails_at: tuple[int, Exception] | None = None

    def begin(self, layer: int, hidden: np.ndarray, routing: Routing) -> "_Distant":
        """Ask for a layer's experts."""
        if self.fails_at is not None and self._n_begun == self.fails_at[0]:
            raise self.fails_at[1]
        self._n_begun += 1
        self.n_under_way += 1
        self.most_under_way = max(self.most_under_way, self.n_under_way)
        moment = self._clock.now + self._delay(layer)
        self._clock.at(moment)
        pending = self._experts.begin(layer, hidden, routing)
        return _Distant(self, self._clock, moment, pending)


@dataclass
class _Distant:
    experts: DistantExperts
    clock: Clock
    moment: float
    pending: PendingExperts

    def compute(self) -> None:
        self.pending.compute()

    def is_ready(self) -> bool:
        return self.clock.now >= self.moment

    def notify(self, ring: Callable[[], None]) -> None:
        assert not self.is_ready()

    def abandon(self) -> None:
        self.experts.n_under_way -= 1

    def finish(self) -> np.ndarray:
        self.clock.now = max(self.clock.now, self.moment)
        self.experts.n_under_way -= 1
        return self.pending.finish()


@dataclass(frozen=True, kw_only=True)
class LinkSpeed:
    """A link of a backbone, and what a long prompt makes of it by simulation.

    The model: MoE layers of 4,096 values, r16, top-8 of which half are away on three
    workers, so that a row goes to about 2.4 of them; rows in chunks of 64.
    """

    rtt_s: float
    up_bytes_s: float
    down_bytes_s: float
    n_layers: int = 24
    n_chunks: int = 32
    before_s: float = 0.002  # attention of a chunk: what its rows wait for
    here_s: float = 0.002  # shared expert and experts at hand
    there_s: float = 0.01  # the workers' computing

    up_bytes: int = field(init=False, default=64 * 4096 * 36 // 32 * 24 // 10)
    down_bytes: int = field(init=False, default=64 * 4096 * 68 // 32 * 4)

    def share_used(self, max_steps: int) -> float:
        """Return the share of the slower direction's capacity that is used."""
        clock, free = Clock(), {"up": 0.0, "there": 0.0, "down": 0.0}

        def through(way: str, start: float, seconds: float) -> float:
            free[way] = max(start, free[way]) + seconds
            return free[way]

        def asked() -> float:
            sent = through("up", clock.now, self.up_bytes / self.up_bytes_s)
            done = through("there", sent + self.rtt_s / 2, self.there_s)
            got = through("down", done, self.down_bytes / self.down_bytes_s)
            return got + self.rtt_s / 2

        def layers():
            for _ in range(self.n_layers):
                clock.now += self.before_s
                pending = _Awaited(clock, asked(), self.here_s)
                clock.at(pending.moment)
                yield pending
                pending.compute()
            return []

        pipeline = Pipeline(
            itertools.repeat(None, self.n_chunks),
            lambda _: Walk(layers()),
            max_steps=max_steps,
            monotonic=lambda: clock.now,
            bell=clock,
        )
        for _ in pipeline.run():
            pass
        n = self.n_layers * self.n_chunks
        busy = max(self.up_bytes / self.up_bytes_s, self.down_bytes / self.down_bytes_s)
        return n * busy / clock.now


@dataclass
class _Awaited:
    clock: Clock
    moment: float
    here_s: float

    def compute(self) -> None:
        self.clock.now += self.here_s
        self.here_s = 0.0

    def is_ready(self) -> bool:
        return self.clock.now >= self.moment

    def notify(self, ring: Callable[[], None]) -> None:
        pass
