"""How busy a relay is, as people are shown it: rates of the last second, delay, peers.

Differences of the relay's own counters between two looks. A rate is null where the two
are not a second or so apart: nobody looked before. Pure; the caller reads the clocks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from relay.metrics import Counters, Gauges
from relay.tokens import Role

__all__ = ["Load", "Moment"]

_MAX_SPAN_S: Final = 5.0
_SLOW_SHARE: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When the relay is looked at: monotonic time, and CPU time of the process."""

    now: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    at: Moment
    frames: int
    bytes_in: int
    bytes_out: int
    drops: int
    joins: int
    refused: int
    delays: tuple[int, ...]


class Load:
    """Makes the section `relay` of the status from one look to the next."""

    def __init__(self, started: Moment, *, max_queued_bytes: int) -> None:
        self._started = started
        self._max_queued_bytes = max_queued_bytes
        self._last: _Totals | None = None

    def section(
        self, at: Moment, counters: Counters, gauges: Gauges, roles: Iterable[Role]
    ) -> Mapping[str, object]:
        """Return what the page shows of the relay itself."""
        totals = _totals(at, counters)
        last, self._last = self._last, totals
        return {
            "uptime_s": int(at.now - self._started.now),
            "roles": _count_roles(roles),
            "connections": gauges.connections,
            "queued_bytes": gauges.queued_bytes,
            "max_queued_bytes": self._max_queued_bytes,
            "frames": totals.frames,
            "joins": totals.joins,
            "drops": totals.drops,
            "refused": totals.refused,
            "now": _rates(last, totals),
        }


def _count_roles(roles: Iterable[Role]) -> Mapping[str, int]:
    counts = Counter(roles)
    return {role.name.lower(): counts[role] for role in Role if counts[role]}


def _totals(at: Moment, counters: Counters) -> _Totals:
    return _Totals(
        at=at,
        frames=counters.delivered,
        bytes_in=counters.bytes_in,
        bytes_out=counters.bytes_out,
        drops=counters.nacked.total() + counters.counted.total(),
        joins=counters.admitted,
        refused=counters.refused.total(),
        delays=tuple(counters.delays),
    )


def _rates(last: _Totals | None, totals: _Totals) -> Mapping[str, object] | None:
    """Return rates a second, CPU in cores, the slow tail of the queue delay."""
    if last is None:
        return None
    span_s = totals.at.now - last.at.now
    if not 0.0 < span_s <= _MAX_SPAN_S:
        return None
    return {
        "frames_s": round((totals.frames - last.frames) / span_s, 1),
        "in_bytes_s": int((totals.bytes_in - last.bytes_in) / span_s),
        "out_bytes_s": int((totals.bytes_out - last.bytes_out) / span_s),
        "drops_s": round((totals.drops - last.drops) / span_s, 1),
        "joins_s": round((totals.joins - last.joins) / span_s, 1),
        "cores": round((totals.at.cpu_s - last.at.cpu_s) / span_s, 3),
        "delay_below_ms": _delay_below_ms(last.delays, totals.delays),
    }


def _delay_below_ms(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """Return the power of two that 99 % of the frames' delays lie below."""
    writes = [new - old for new, old in zip(after, before, strict=True)]
    total, n_faster = sum(writes), 0
    for power, n_writes in enumerate(writes):
        n_faster += n_writes
        if total and n_faster >= _SLOW_SHARE * total:
            return 1 << power
    return None
