"""What the relay counts, and its rendering as Prometheus text. No I/O in here.

Every frame that a peer sends is accounted for exactly once:

    accepted = delivered + nacked + counted + lost at close + still waiting

`delivered` means handed to the kernel for the destination. `lost at close` were in the
write that failed: they may or may not have arrived. Source of the text form:
Prometheus exposition format 0.0.4.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from relay.frame_types import GoneReason, NackReason

__all__ = ["Counters", "Gauges", "render_metrics"]

_N_DELAYS: Final = 17  # ages are u16 milliseconds


@dataclass(slots=True)
class Counters:
    """Totals since the start.

    `delays[n]` counts writes whose first frame had waited less than 2^n ms, but not
    less than half of that: the queue delay, sampled once a write.
    """

    accepted: int = 0
    delivered: int = 0
    nacked: Counter[NackReason] = field(default_factory=Counter)
    counted: Counter[NackReason] = field(default_factory=Counter)
    lost_at_close: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    writes: int = 0
    delays: list[int] = field(default_factory=lambda: [0] * _N_DELAYS)
    admitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    left: Counter[GoneReason] = field(default_factory=Counter)
    throttled: int = 0

    @property
    def n_settled(self) -> int:
        """Frames whose fate is decided."""
        settled = self.delivered + self.nacked.total() + self.counted.total()
        return settled + self.lost_at_close


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """States of this moment."""

    peers: int
    parked: int
    connections: int
    queued_bytes: int


def _samples(counters: Counters, gauges: Gauges) -> Iterator[tuple[str, str, float]]:
    yield "frames_accepted_total", "", counters.accepted
    yield "frames_delivered_total", "", counters.delivered
    for reason in NackReason:
        label = f'{{reason="{reason.name.lower()}"}}'
        yield "frames_nacked_total", label, counters.nacked[reason]
        yield "frames_dropped_total", label, counters.counted[reason]
    yield "frames_lost_at_close_total", "", counters.lost_at_close
    yield "received_bytes_total", "", counters.bytes_in
    yield "sent_bytes_total", "", counters.bytes_out
    yield "writes_total", "", counters.writes
    for power, n_writes in enumerate(counters.delays):
        yield "writes_by_delay_total", f'{{below_ms="{1 << power}"}}', n_writes
    yield "peers_admitted_total", "", counters.admitted
    for cause in sorted(counters.refused):
        yield "refused_total", f'{{cause="{cause}"}}', counters.refused[cause]
    for left in GoneReason:
        label = f'{{reason="{left.name.lower()}"}}'
        yield "peers_left_total", label, counters.left[left]
    yield "throttled_reads_total", "", counters.throttled
    yield "peers", "", gauges.peers
    yield "parked_peers", "", gauges.parked
    yield "connections", "", gauges.connections
    yield "queued_bytes", "", gauges.queued_bytes


def render_metrics(counters: Counters, gauges: Gauges) -> str:
    """Return the metrics page; each name begins with `p2pmoe_relay_`."""
    by_name: dict[str, list[str]] = {}
    for name, label, value in _samples(counters, gauges):
        full = f"p2pmoe_relay_{name}"
        kind = "counter" if name.endswith("_total") else "gauge"
        rows = by_name.setdefault(full, [f"# TYPE {full} {kind}"])
        rows.append(f"{full}{label} {value}")
    return "\n".join(row for rows in by_name.values() for row in rows) + "\n"
