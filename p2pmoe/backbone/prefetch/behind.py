"""Fetches that nobody waits for: to measure a link, or to keep a remote expert.

One at a time and small. Replies are looked at when a decode thread comes by; a fetch
that is not over after 10 s is given up. For one thread at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty
from typing import Final

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.path_times import Path
from p2pmoe.backbone.plan import Holder
from p2pmoe.backbone.prefetch.checking import ShardChecker
from p2pmoe.backbone.prefetch.fetch_work import Fetching, FetchWork, Wanted
from p2pmoe.backbone.prefetch.figures import PrefetchFigures
from p2pmoe.backbone.prefetch.keeping import Keeping
from p2pmoe.backbone.prefetch.link_rates import LinkRates
from p2pmoe.backbone.prefetch.taking import Taking
from relay.keys import PeerId

__all__ = ["Behind", "BehindParts"]

_MOST_S: Final = 10.0
PROBE_BYTES: Final = 1 << 18  # of one worker, or one expert
_MOST_PROBED: Final = 4  # workers at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindParts:
    """What it works with; all of it is shared with the prefetch it stands behind."""

    fetching: Fetching
    hot: HotSet
    cost: LocalCost
    checker: ShardChecker
    rates: LinkRates
    keeping: Keeping
    figures: PrefetchFigures
    holders: Callable[[ExpertId], tuple[Holder, ...]]


@dataclass(slots=True, kw_only=True)
class _Job:
    work: FetchWork
    taking: Taking
    started_at: float
    rtts: dict[PeerId, float]


class Behind:
    """The fetch that is under way behind passes, if there is one."""

    def __init__(self, parts: BehindParts) -> None:
        """Begin with none."""
        self._parts = parts
        self._job: _Job | None = None

    def go_on(self, now: float) -> None:
        """Take in what came; begin to fetch what is worth keeping, if it is time."""
        if self._job is not None:
            self._take(self._job, now)
        if self._job is None and (expert := self._parts.keeping.pick(now)) is not None:
            rates = self._parts.rates
            holders = self._parts.holders(expert)
            holders = tuple(h for h in holders if rates.may_ask(h.peer, now))
            holder = min(holders, key=lambda h: (h.cost.rtt_s, h.peer), default=None)
            if holder is None:
                self._parts.keeping.ended(now)
            else:
                self._begin([(expert, holder)], now)

    def probe(self, experts: Iterable[ExpertId], now: float) -> None:
        """Fetch a little from workers whose links are to be measured, if any are due.

        `experts` are those that passes need, the likeliest first.
        """
        if self._job is not None:
            return
        chosen: list[tuple[ExpertId, Holder]] = []
        n_bytes: dict[PeerId, int] = {}
        sizes, rates = self._parts.hot.sizes, self._parts.rates
        for expert in experts:
            for holder in self._parts.holders(expert):
                peer, before = holder.peer, n_bytes.get(holder.peer, 0)
                is_new = peer not in n_bytes
                if is_new and len(n_bytes) >= _MOST_PROBED:
                    continue
                is_small = before + sizes[expert] <= PROBE_BYTES
                if (is_new or is_small) and rates.is_due(peer, now):
                    n_bytes[peer] = before + sizes[expert]
                    chosen.append((expert, holder))
                    break
        if chosen:
            for peer in n_bytes:
                rates.probing(peer, now)
            self._begin(chosen, now)

    def _begin(self, chosen: list[tuple[ExpertId, Holder]], now: float) -> None:
        parts = self._parts
        wanted = [Wanted(expert=e, peer=holder.peer) for e, holder in chosen]
        work = FetchWork(wanted=tuple(wanted))
        self._job = _Job(
            work=work,
            taking=Taking(wanted, now, parts.hot.sizes, parts.checker),
            started_at=now,
            rtts={holder.peer: holder.cost.rtt_s for _, holder in chosen},
        )
        parts.fetching.start(work)

    def _take(self, job: _Job, now: float) -> None:
        parts = self._parts
        while job.taking.n_open:
            try:
                reply = job.work.replies.get_nowait()
            except Empty:
                break
            taken = job.taking.take(reply)
            if taken is not None and parts.hot.adopt(*taken):
                parts.figures.n_kept += 1
        is_over = not job.taking.n_open
        if not is_over and now - job.started_at < _MOST_S:
            return
        if not is_over:
            parts.fetching.stop(job.work)
        job.taking.settle(parts.rates, job.rtts, now)
        job.taking.count(parts.figures)
        if is_over and not job.taking.lacks:
            seconds = job.taking.seconds / len(job.work.wanted)
            parts.cost.times.add(Path.FETCH, seconds)
        parts.keeping.ended(now)
        self._job = None
