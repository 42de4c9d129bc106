"""Counters of one request; what they mean is said in trace.py."""

from p2pmoe.backbone.generation import TierCalls
from p2pmoe.backbone.plan import Tier

__all__ = ["RequestTrace"]


class RequestTrace:
    """What one request has cost so far; mutable, one writer per field.

    The engine sets `decoding`, the seconds, `traces` (each step keeps hashes of it) and
    `position`, where the next step's first row stands in the sequence.
    """

    __slots__ = (
        "bytes_down",
        "bytes_up",
        "cache_hits",
        "calls",
        "cancelled",
        "decode_s",
        "decode_trips",
        "decode_wait_s",
        "decoding",
        "dropped_calls",
        "failovers",
        "fetched_bytes",
        "hedges",
        "major_faults",
        "minor_faults",
        "position",
        "prefill_s",
        "prefill_trips",
        "queued_s",
        "read_bytes",
        "traces",
        "wait_s",
    )

    def __init__(self) -> None:
        """Begin with nothing spent."""
        self.calls = dict.fromkeys(Tier, 0)
        self.cancelled = False  # set by the trio side, read at every layer
        self.decoding = False
        self.decode_trips = 0
        self.prefill_trips = 0
        self.failovers = 0
        self.hedges = 0  # calls that a second worker was asked for as well
        self.fetched_bytes = 0  # of weights
        self.bytes_up = 0
        self.bytes_down = 0
        self.queued_s = 0.0
        self.prefill_s = 0.0
        self.decode_s = 0.0
        self.wait_s = 0.0  # for the network, in prefill and decoding
        self.decode_wait_s = 0.0
        self.cache_hits = 0  # of disk calls: those that needed no read
        self.read_bytes = 0
        self.minor_faults = 0
        self.major_faults = 0
        self.dropped_calls = 0
        self.traces = False
        self.position = 0

    def tripped(self, seconds: float = 0.0) -> None:
        """Count one blocking wait for the network."""
        self.wait_s += seconds
        if self.decoding:
            self.decode_trips += 1
            self.decode_wait_s += seconds
        else:
            self.prefill_trips += 1

    def tier_calls(self) -> TierCalls:
        """Return the expert calls by tier."""
        return TierCalls(
            ram=self.calls[Tier.RAM],
            disk=self.calls[Tier.DISK],
            hub=self.calls[Tier.HUB],
            edge=self.calls[Tier.EDGE],
        )
