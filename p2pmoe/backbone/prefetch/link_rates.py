"""How fast weights come from each worker, as earlier fetches took. Pure.

The round trip is that of dispatches (cost.py), or, where there are none any more since
everything is fetched, most of the time until the first shard came; what bytes add to it
is measured here, among the other fetches that shared the link at the time. Rules:

- a worker that was never measured is not waited for: a small fetch that nobody waits
  for (`is_due`) measures it first, and again, less and less often, while nothing else
  is fetched from it, so that a link that has become faster is noticed;
- no fetch is more than sixteen times as large as the largest that came in time: what a
  small one took says little about credit and queues;
- a quicker sample counts more than a slower one: a fetch that is tried in vain corrects
  the estimate, one that is not tried never does;
- a fetch that was late makes bytes as dear as what came of it says, twice as dear at
  least, 64 times if nothing came, so that a worker that answers probes only holds up
  one fetch in two minutes, and one that stalled once is not left for good; it halves
  what is asked for, which from then on grows by a quarter at a time;
- a worker that fails is left alone for a while, from 1 s doubling to 60 s; one that
  sent other bytes than the shard's is never asked again.

Seconds are on the caller's monotonic clock. For one thread at a time.
"""

import math
from dataclasses import dataclass
from typing import Final

from relay.keys import PeerId

__all__ = ["LinkRates", "Source"]

_ALPHA: Final = 0.3
_QUICKER_ALPHA: Final = 0.5
_GROWTH: Final = 16.0
_SLOW_GROWTH: Final = 1.25
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 60.0
_FIRST_PROBE_S: Final = 2.0  # after a measurement
_LAST_PROBE_S: Final = 120.0
_MAX_PEERS: Final = 4096
_SILENT: Final = 64.0  # times as dear: undone by six quick probes, in two minutes
_DEAREST_S: Final = 1.0  # a byte: what is late for days is no dearer for it
_TRIP_SHARE: Final = 0.8  # of the time until a first shard came
_LEAST_SECONDS: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A worker that shards can be had from, and what that takes."""

    peer: PeerId
    rtt_s: float
    per_byte_s: float
    most_bytes: int


@dataclass(slots=True)
class _Link:
    per_byte_s: float | None = None
    first_s: float | None = None
    most_bytes: int = 0
    growth: float = _GROWTH
    pause_s: float = 0.0
    paused_until: float = -math.inf
    probe_pause_s: float = _FIRST_PROBE_S
    probe_at: float = -math.inf
    is_wrong: bool = False


class LinkRates:
    """Workers and the rates of their links."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._links: dict[PeerId, _Link] = {}

    def source(self, peer: PeerId, rtt_s: float, now: float) -> Source | None:
        """Return a worker as a source; None if it should not be waited for now."""
        link = self._links.get(peer)
        if link is None or link.per_byte_s is None or not self._may_ask(link, now):
            return None
        return Source(
            peer=peer,
            rtt_s=self.rtt_s(peer, rtt_s),
            per_byte_s=link.per_byte_s,
            most_bytes=link.most_bytes,
        )

    def rtt_s(self, peer: PeerId, told_s: float) -> float:
        """Return a worker's round trip; `told_s` is that of dispatches, of late."""
        link = self._links.get(peer)
        if link is None or link.first_s is None:
            return told_s
        return max(told_s, _TRIP_SHARE * link.first_s)

    def answered(self, peer: PeerId, seconds: float) -> None:
        """Note after which time the first shard of a fetch came."""
        if 0.0 <= seconds < math.inf:
            link = self._link(peer)
            before = seconds if link.first_s is None else link.first_s
            link.first_s = before + _ALPHA * (seconds - before)

    def may_ask(self, peer: PeerId, now: float) -> bool:
        """Whether anything may be asked of a worker now."""
        link = self._links.get(peer)
        return link is None or self._may_ask(link, now)

    def is_due(self, peer: PeerId, now: float) -> bool:
        """Whether a worker should be measured by a fetch that nobody waits for."""
        link = self._links.get(peer)
        if link is None:
            return True
        return self._may_ask(link, now) and now >= link.probe_at

    def probing(self, peer: PeerId, now: float) -> None:
        """Note that such a fetch begins; the next is due much later."""
        link = self._link(peer)
        link.probe_at = now + link.probe_pause_s
        link.probe_pause_s = min(2 * link.probe_pause_s, _LAST_PROBE_S)

    def took(self, peer: PeerId, n_bytes: int, seconds: float, rtt_s: float) -> None:
        """Take in a fetch that came whole: all its bytes, and when the last was there.

        One of fewer bytes than a first measurement needs counts all the same.
        """
        if n_bytes <= 0 or not 0.0 <= seconds < math.inf:
            return
        link = self._link(peer)
        sample = max(seconds - rtt_s, _LEAST_SECONDS) / n_bytes
        if link.per_byte_s is None:
            link.per_byte_s = sample
        elif sample < link.per_byte_s:
            link.per_byte_s += _QUICKER_ALPHA * (sample - link.per_byte_s)
        else:  # a large fetch says more than a small one
            weight = (
                _ALPHA if 2 * n_bytes >= link.most_bytes / link.growth else _ALPHA / 4
            )
            link.per_byte_s += weight * (sample - link.per_byte_s)
        link.most_bytes = max(link.most_bytes, int(link.growth * n_bytes))
        link.pause_s = 0.0

    def used(self, peer: PeerId, now: float) -> None:
        """Note that a worker is measured by what is waited for: no probe is due."""
        link = self._link(peer)
        link.probe_pause_s = _FIRST_PROBE_S
        link.probe_at = now + _FIRST_PROBE_S

    def late(self, peer: PeerId, n_bytes: int, seconds: float, rtt_s: float) -> None:
        """Note that only `n_bytes` came of what was asked for, in so many seconds."""
        link = self._link(peer)
        least = max(seconds - rtt_s, _LEAST_SECONDS) / max(1, n_bytes)
        if not n_bytes and link.per_byte_s is not None:  # that says nothing of bytes
            least = min(least, _SILENT * link.per_byte_s)
        before_s = link.per_byte_s or 0.0
        link.per_byte_s = min(max(2 * before_s, least), max(before_s, _DEAREST_S))
        link.most_bytes = max(link.most_bytes // 2, n_bytes, 1)
        link.growth = _SLOW_GROWTH

    def failed(self, peer: PeerId, now: float) -> None:
        """Leave a worker alone for a while."""
        link = self._link(peer)
        if now < link.paused_until:
            return  # it was asked before that
        link.pause_s = min(max(_FIRST_PAUSE_S, 2 * link.pause_s), _LAST_PAUSE_S)
        link.paused_until = now + link.pause_s

    def wrong(self, peer: PeerId) -> None:
        """Never ask a worker again: it sent other bytes."""
        self._link(peer).is_wrong = True

    def _link(self, peer: PeerId) -> _Link:
        link = self._links.get(peer)
        if link is None:
            if len(self._links) >= _MAX_PEERS:
                del self._links[next(iter(self._links))]
            link = self._links[peer] = _Link()
        return link

    @staticmethod
    def _may_ask(link: _Link, now: float) -> bool:
        return not link.is_wrong and now >= link.paused_until
