"""A reference's prompt through a network: every routed expert is computed elsewhere.

The backbone here has no expert at hand and never takes one from disk, spot checks
included, so that what comes out is what the workers gave. It waits until each expert
has a worker, then decodes on a thread while the event loop serves the network. Calls
are dealt out to all holders of an expert in turn, not to the fastest alone, so that a
small model is scattered too; what is lost on the way goes to whoever else holds it.
Leaving early (an error, a cancellation) ends the thread at its next layer.
"""

import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import trio

from ledger.spool import Spool
from mobile_worker.arithmetic.coding import Floats
from mobile_worker.clock import Clock
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.node import Node
from mobile_worker.shards.manifest import Manifest
from p2pmoe.backbone.attached import Attached, attach
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.joining import Joining
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.plan import Holder, Tier
from p2pmoe.backbone.scattered import Holders, ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.check.comparison import Produced, Tell, produce
from p2pmoe.check.reference import Reference
from p2pmoe.config import DiskPolicy, Tuning
from p2pmoe.errors import Cancelled, ConfigurationError, ExpertsUnavailable
from p2pmoe.model.experts import PendingExperts, Routing
from relay.keys import PeerId

__all__ = ["ScatteredCheck", "ScatteredParts", "ScatteredRun", "open_scattered"]

LAYER_WITHIN_S = 60.0  # a layer whose experts nobody serves for so long fails
LATE_WITHIN_S = 15.0  # the machine may be busy
NO_SPOT_CHECKS = Tuning(
    n_lanes=1, spot_check_rate=0.0, newcomer_spot_check_rate=0.0, first_passes=0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatteredParts:
    """What a scattered run needs: a node on the network, and a model without experts.

    `local` has the disk policy OFF and an empty hot set.
    """

    node: Node
    sign: Callable[[bytes], bytes]
    clock: Clock
    local: LocalSide
    manifest: Manifest
    spool: Spool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatteredRun:
    """What came out, and who computed it: expert calls by worker, and here."""

    produced: Produced
    calls: Mapping[PeerId, int]  # one expert, any rows
    n_calls_here: int
    n_failovers: int  # calls asked of another worker once more


class ScatteredCheck:
    """The backbone of one scattered run; see `open_scattered`."""

    def __init__(
        self,
        parts: ScatteredParts,
        attached: Attached,
        changed: trio.lowlevel.ParkingLot,
    ) -> None:
        """Begin over a running network side; `changed` wakes when coverage may have."""
        self._parts = parts
        self._attached = attached
        self._changed = changed
        self._experts = parts.local.all_experts()

    def missing(self) -> frozenset[ExpertId]:
        """Return the experts that no worker can be asked for now."""
        return self._experts - self._attached.joined.fleet.covered()

    async def cover(
        self, within_s: float, tell: Tell = lambda _: None, *, n_workers: int = 1
    ) -> None:
        """Wait until every expert has a worker, telling the share that has.

        Then wait a little for `n_workers` to be there: those who share an expert with
        others may be late, and one that got none to hold is never seen.

        Raises:
            ExpertsUnavailable: it took longer than `within_s` seconds.
        """
        with trio.move_on_after(within_s):
            while missing := self.missing():
                tell(1.0 - len(missing) / len(self._experts))
                await self._changed.park()
            with trio.move_on_after(LATE_WITHIN_S):
                while self._n_askable() < n_workers:
                    await self._changed.park()
            return
        raise ExpertsUnavailable(
            f"{len(self.missing())} of {len(self._experts)} experts have no worker "
            f"after {within_s:.0f} s",
            advice="give the workers more memory, or use fewer of them",
        )

    def _n_askable(self) -> int:
        workers = self._attached.joined.fleet.workers.values()
        return sum(worker.askable for worker in workers)

    async def produce(
        self, reference: Reference, tell: Tell = lambda _: None
    ) -> ScatteredRun:
        """Run the reference; `tell` is called on the decode thread.

        Raises:
            ExpertsUnavailable: an expert was without a worker for too long.
            P2pmoeError, ArithmeticRefused: as `Model.forward` does.
        """
        trace = RequestTrace()
        step = StepTrace.of(trace)
        joined, local = self._attached.joined, self._parts.local
        network = replace(self._attached.network, fleet=_DealtOut(joined.fleet))
        experts = _PatientExperts(
            ScatteredExperts(local.places(network), step, math.inf),
            self._parts.clock.monotonic,
        )

        async def cancel_when_left() -> None:
            try:
                await trio.sleep_forever()
            finally:
                joined.dispatcher.cancel(step)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_left)
            try:
                produced = await trio.to_thread.run_sync(
                    produce, local.model, experts, reference, tell
                )
            except Cancelled:
                await trio.lowlevel.checkpoint_if_cancelled()  # then it was our caller
                raise
            nursery.cancel_scope.cancel()
        return ScatteredRun(
            produced=produced,
            calls={peer: each.n_calls for peer, each in joined.fleet.workers.items()},
            n_calls_here=trace.calls[Tier.RAM] + trace.calls[Tier.DISK],
            n_failovers=trace.failovers,
        )


class _DealtOut:
    """Of the holders of each expert one: the experts of a layer go round among them."""

    def __init__(self, fleet: Holders) -> None:
        self._fleet = fleet

    def holders(self, layer: int) -> dict[int, tuple[Holder, ...]]:
        return {
            index: (sorted(held, key=_by_peer)[(layer + index) % len(held)],)
            for index, held in self._fleet.holders(layer).items()
        }


def _by_peer(holder: Holder) -> PeerId:
    return holder.peer


class _PatientExperts:
    """The experts of a run without a deadline: each layer has one of its own."""

    def __init__(
        self, experts: ScatteredExperts, monotonic: Callable[[], float]
    ) -> None:
        self._experts = experts
        self._monotonic = monotonic

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> PendingExperts:
        self._experts.deadline = self._monotonic() + LAYER_WITHIN_S
        return self._experts.begin(layer, hidden, routing)


@asynccontextmanager
async def open_scattered(parts: ScatteredParts) -> AsyncIterator[ScatteredCheck]:
    """Join the network, and run the backbone's side of it.

    Raises:
        ConfigurationError: the network has no market or ledger, or `parts.local` has
            experts at hand.
    """
    local = parts.local
    if local.options.policy is not DiskPolicy.OFF or local.hot.at_hand():
        raise ConfigurationError("a scattered run needs a backbone without experts")
    changed = trio.lowlevel.ParkingLot()

    def wake() -> None:
        changed.unpark_all()

    joining = Joining(
        node=parts.node,
        sign=parts.sign,
        clock=parts.clock,
        local=local,
        manifest=parts.manifest,
        spool=parts.spool,
        counters=BackboneCounters(),
        tuning=NO_SPOT_CHECKS,
        on_coverage=wake,
    )
    async with attach(joining) as attached:
        yield ScatteredCheck(parts, attached, changed)
