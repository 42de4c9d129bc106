"""One pass of a lane as it goes on: sums for the metrics, and its layers if asked for.

Each field has one writing thread: the decode thread, but for messages, hedges, failures
and answers, which the trio side notes while the decode thread is in that layer. Without
`keeps_layers` no more than a few sums are kept; layers whose experts are all in memory
cost one addition in any case.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from p2pmoe.backbone.plan import ExpertRows, LayerPlan, rows_of
from p2pmoe.passes.values import LayerTrace, PassTrace

__all__ = ["PassRecord"]


@dataclass(slots=True, kw_only=True)
class _Layer:
    """A layer under way; moments are the clock's."""

    layer: int
    start_s: float
    missing: set[int] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    trips: int = 0
    meanwhile_s: float = 0.0
    draft_s: float = 0.0
    wait_s: float = 0.0
    n_disk: int = 0
    n_prefetched: int = 0
    # Of the trio side.
    answered_s: float = 0.0
    n_messages: int = 0
    n_hedged: int = 0
    n_failovers: int = 0

    def told(self, zero_s: float) -> LayerTrace:
        return LayerTrace(
            layer=self.layer,
            start_s=self.start_s - zero_s,
            missing=tuple(sorted(self.missing)),
            n_rows=len(self.rows),
            trips=self.trips,
            meanwhile_s=self.meanwhile_s,
            draft_s=self.draft_s,
            wait_s=self.wait_s,
            answered_s=self.answered_s - zero_s if self.answered_s else 0.0,
            n_messages=self.n_messages,
            n_hedged=self.n_hedged,
            n_failovers=self.n_failovers,
            n_disk=self.n_disk,
            n_prefetched=self.n_prefetched,
        )


class PassRecord:
    """One pass of a lane, for all its requests; see `PassTrace` for what is told."""

    __slots__ = (
        "_asked_s",
        "_layers",
        "_monotonic",
        "_number",
        "_start_s",
        "crossing_s",
        "draft_s",
        "drafter",
        "failure",
        "fetched_bytes",
        "keeps_layers",
        "lane",
        "n_fetched",
        "n_layers",
        "n_trips",
        "prefetch_s",
        "wait_s",
        "why",
    )

    def __init__(
        self,
        *,
        lane: int = 0,
        keeps_layers: bool = False,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin before the first layer."""
        self._monotonic = monotonic
        self._start_s = monotonic()
        self._asked_s = 0.0
        self._number = -1  # of the layer that asked last
        self._layers: list[_Layer] = []
        self.keeps_layers = keeps_layers
        self.lane = lane
        self.n_layers = 0  # with routed experts, so far
        self.n_trips = 0
        self.wait_s = 0.0
        self.crossing_s = 0.0  # from handing the calls over to having the answers
        self.prefetch_s = 0.0
        self.n_fetched = 0
        self.fetched_bytes = 0
        self.drafter = ""
        self.draft_s = 0.0
        self.why = ""
        self.failure = ""

    # By the decode thread.

    def planned(self, why: str, drafter: str = "", draft_s: float = 0.0) -> None:
        """Note how the round was chosen, and drafting before it that nothing hid."""
        self.why, self.drafter, self.draft_s = why, drafter, draft_s

    def fetched(self, seconds: float, n_experts: int, n_bytes: int) -> None:
        """Note one wait for weights before the pass, whatever came of it."""
        self.n_trips += 1
        self.wait_s += seconds
        self.crossing_s += seconds
        self.prefetch_s += seconds
        self.n_fetched += n_experts
        self.fetched_bytes += n_bytes

    def at_hand(self) -> None:
        """Note a layer whose experts are all in memory."""
        self.n_layers += 1

    def asked(self, plan: LayerPlan) -> None:
        """Note a layer that is about to ask the network or the disk, again too."""
        self.n_layers += plan.layer != self._number
        self._number = plan.layer
        self._asked_s = self._monotonic()
        if not self.keeps_layers:
            return
        away = tuple(plan.away)
        layer = self._at(plan.layer)
        layer.missing.update(call.expert for call in away)
        layer.rows |= rows_of(away)
        layer.n_disk += len(plan.disk)

    def prefetched(self, layer: int, calls: Collection[ExpertRows]) -> None:
        """Note calls of a layer whose weights were fetched before the pass."""
        if self.keeps_layers:
            self._at(layer).n_prefetched += len(calls)

    def drafted(self, seconds: float) -> None:
        """Note drafting while the latest layer's calls are away."""
        if self._layers:
            self._layers[-1].draft_s += seconds

    def waited(self, seconds: float) -> None:
        """Note one wait of the lane for the network, which is over now."""
        now_s = self._monotonic()
        self.n_trips += 1
        self.wait_s += seconds
        self.crossing_s += max(seconds, now_s - self._asked_s)
        self._asked_s = now_s
        if not self._layers:
            return
        layer = self._layers[-1]
        if not layer.trips:
            layer.meanwhile_s = max(0.0, now_s - seconds - layer.start_s)
        layer.trips += 1
        layer.wait_s += seconds

    # By the trio side.

    def sent(self) -> None:
        """Note one message to a worker."""
        if self._layers:
            self._layers[-1].n_messages += 1

    def answered(self) -> None:
        """Note an answer that was taken, now."""
        if self._layers:
            self._layers[-1].answered_s = self._monotonic()

    def hedged(self, calls: Collection[ExpertRows]) -> None:
        """Note calls that a second worker is asked for as well."""
        if self._layers:
            self._layers[-1].n_hedged += len(calls)

    def failed_over(self, n_calls: int) -> None:
        """Note calls that had to go elsewhere."""
        if self._layers:
            self._layers[-1].n_failovers += n_calls

    # What it came to.

    def told(self, seconds: float, n_rows: int, n_sequences: int) -> PassTrace:
        """Return what the lane did; drafts and tokens are the caller's to add."""
        return PassTrace(
            start_s=self._start_s,
            seconds=seconds,
            lane=self.lane,
            n_rows=n_rows,
            n_sequences=n_sequences,
            n_layers=self.n_layers,
            drafter=self.drafter,
            draft_s=self.draft_s,
            why=self.why,
            trips=self.n_trips,
            wait_s=self.wait_s,
            prefetch_s=self.prefetch_s,
            n_fetched=self.n_fetched,
            fetched_bytes=self.fetched_bytes,
            failure=self.failure,
            layers=tuple(layer.told(self._start_s) for layer in self._layers),
        )

    def _at(self, number: int) -> _Layer:
        if not self._layers or self._layers[-1].layer != number:
            self._layers.append(_Layer(layer=number, start_s=self._monotonic()))
        return self._layers[-1]
