"""The workers this backbone knows: what each holds and whether it may be asked now.

Written by the trio side only; read by the decode threads, so everything they read is
replaced, never changed in place (`holders`). Rules:

- a worker is asked only when LIVE and there are means to pay it (a tab, a grant, room
  in its float); a placement alone makes it GREETING, its HELLO makes it LIVE;
- what it holds counts as covered while its float is full, too: that passes in a moment;
- every failure demotes it for a while, doubling from 1 s to 60 s; a demoted worker is
  greeted again when the time is over and must answer before it gets work (fault B28);
- one that is beaten by a hedge four times on end, and says nothing, counts as failed;
- one that says BUSY sixteen times, and answers nothing in between, has failed as well:
  whoever has no room for long is not to be asked for every layer;
- only a valid answer clears its record, never a greeting;
- a worker that is slow beside its peers (slowness.py) is asked for what nobody else
  holds, and probed now and then;
- a worker caught with a wrong result is DROPPED for the life of this process.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import WorkerCost
from p2pmoe.backbone.plan import Holder, Tier
from p2pmoe.backbone.servings import Means
from p2pmoe.backbone.slowness import ProbeTimes, slow_workers
from relay.keys import PeerId

__all__ = ["Fleet", "Status", "WorkerState"]

FIRST_DEMOTION_S = 1.0
LONGEST_DEMOTION_S = 60.0
MAX_DOUBLINGS = 10  # failures have no bound, the exponent of a float has
GREETING_TIMEOUT_S = 5.0
MAX_BEATEN = 4  # half of the hedges that can be saved up
MAX_BUSY = 16


class Status(StrEnum):
    """Where a worker stands with this backbone."""

    GREETING = "greeting"  # its HELLO is outstanding
    LIVE = "live"
    DEMOTED = "demoted"  # failed; greeted again at `until`
    GONE = "gone"  # left the placement or its link; greeted again if placed
    DROPPED = "dropped"  # gave a wrong result


class WorkerState:
    """One worker; fields are written by the trio side only."""

    __slots__ = (
        "beaten",
        "cost",
        "experts",
        "failures",
        "holder",
        "means",
        "n_busy",
        "n_calls",
        "n_refused",
        "passes",
        "peer",
        "placed",
        "status",
        "tier",
        "until",
    )

    def __init__(self, peer: PeerId, tier: Tier) -> None:
        """Begin unknown: no experts, no HELLO yet."""
        self.peer = peer
        self.tier = tier
        self.cost = WorkerCost(rtt_s=0.002 if tier is Tier.HUB else 0.05)
        self.holder = Holder(peer=peer, tier=tier, cost=self.cost)
        self.experts: dict[int, frozenset[int]] = {}  # layer -> indices
        self.status = Status.GONE
        self.until = 0.0
        self.failures = 0
        self.beaten = 0  # by hedges, since its last valid answer
        self.n_busy = 0  # since its last valid answer
        self.n_refused = 0
        self.n_calls = 0  # accepted
        self.passes = 0
        self.means = Means.NONE
        self.placed = False

    @property
    def askable(self) -> bool:
        """Whether it may get a dispatch now."""
        return self.means is Means.ROOM and self.covers

    @property
    def covers(self) -> bool:
        """Whether what it holds can be had from it, now or in a moment."""
        live = self.status is Status.LIVE and self.placed
        return live and self.means is not Means.NONE


class Fleet:
    """All workers, and for each layer who can be asked for which expert."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.workers: dict[PeerId, WorkerState] = {}
        self._version = 0
        self._by_layer: dict[int, tuple[int, Mapping[int, tuple[Holder, ...]]]] = {}
        self._probes = ProbeTimes()

    def holders(self, layer: int) -> Mapping[int, tuple[Holder, ...]]:
        """Return the askable holders of each expert of a layer (any thread).

        Slow ones are left out where there are others.
        """
        known = self._by_layer.get(layer)
        version = self._version
        if known is not None and known[0] == version:
            return known[1]
        lists: dict[int, list[Holder]] = {}
        for worker in self.workers.values():
            if worker.askable:
                for index in worker.experts.get(layer, ()):
                    lists.setdefault(index, []).append(worker.holder)
        slow = self._probes.slow
        table = {
            index: tuple([h for h in holders if h.peer not in slow] or holders)
            for index, holders in lists.items()
        }
        self._by_layer[layer] = (version, table)
        return table

    def place(
        self, placement: Mapping[PeerId, tuple[Tier, Iterable[ExpertId]]]
    ) -> None:
        """Take a full placement in; who is new in it is greeted without delay."""
        workers = dict(self.workers)
        for worker in workers.values():
            worker.placed = worker.placed and worker.peer in placement
        for peer, (tier, experts) in placement.items():
            worker = workers.get(peer) or WorkerState(peer, tier)
            if worker.tier is not tier:
                worker.tier = tier
                worker.holder = Holder(peer=peer, tier=tier, cost=worker.cost)
            if not worker.placed:
                worker.failures, worker.until = 0, 0.0
            worker.placed = True
            worker.experts = _by_layer(experts)
            workers[peer] = worker
        self.workers = workers
        self._changed()

    def greeting(self, peer: PeerId, now: float) -> None:
        """Note that a HELLO was sent."""
        worker = self.workers[peer]
        if worker.status is not Status.DROPPED:
            worker.status = Status.GREETING
            worker.until = now + GREETING_TIMEOUT_S
            self._changed()

    def greeted(self, peer: PeerId) -> bool:
        """Note a valid HELLO answer; True if the worker has become LIVE by it."""
        worker = self.workers.get(peer)
        if worker is None or worker.status in {Status.LIVE, Status.DROPPED}:
            return False
        if worker.status is Status.DEMOTED:
            return False
        worker.status = Status.LIVE
        self._changed()
        return True

    def set_means(self, peer: PeerId, means: Means) -> bool:
        """Note whether there is a tab, a grant and room in the float; True if new."""
        worker = self.workers.get(peer)
        if worker is None or worker.means is means:
            return False
        worker.means = means
        self._changed()
        return True

    def failed(self, peer: PeerId, now: float, *, weight: int = 1) -> None:
        """Demote a worker for a failure; a grave one has more `weight`.

        What else fails while it is demoted was asked before: a relay that stands still
        for a second makes all of that late, and it counts once.
        """
        worker = self.workers.get(peer)
        if worker is None or worker.status is Status.DROPPED:
            return
        if worker.status is Status.DEMOTED and weight == 1:
            return
        worker.failures += weight
        doublings = min(worker.failures - 1, MAX_DOUBLINGS)
        wait = min(FIRST_DEMOTION_S * 2.0**doublings, LONGEST_DEMOTION_S)
        worker.status = Status.DEMOTED
        worker.until = now + wait
        self._changed()

    def excused(self, peer: PeerId, now: float) -> None:
        """Take a failure back: what was asked for was at fault; greet it at once."""
        worker = self.workers.get(peer)
        if worker is not None and worker.status is Status.DEMOTED:
            worker.failures = max(0, worker.failures - 1)
            worker.until = now

    def succeeded(self, peer: PeerId) -> None:
        """Clear a worker's record after a valid answer."""
        worker = self.workers.get(peer)
        if worker is not None:
            worker.failures = 0
            worker.beaten = worker.n_busy = 0

    def beaten(self, peer: PeerId, now: float) -> None:
        """Note that a hedge was quicker: a worker that fell silent shows by this."""
        worker = self.workers[peer]
        worker.beaten += 1
        if worker.beaten >= MAX_BEATEN:
            worker.beaten = 0
            self.failed(peer, now)

    def busy(self, peer: PeerId, now: float) -> None:
        """Note that a worker had no room: no failure, unless it never has."""
        worker = self.workers[peer]
        worker.n_busy += 1
        if worker.n_busy >= MAX_BUSY:
            worker.n_busy = 0
            self.failed(peer, now)

    def lost(self, peer: PeerId, now: float) -> None:
        """Note that a worker's link or process is gone, or that it drains."""
        self.failed(peer, now)
        worker = self.workers.get(peer)
        if worker is not None and worker.status is not Status.DROPPED:
            worker.status = Status.GONE
            worker.means = Means.NONE

    def draining(self, peer: PeerId, now: float) -> None:
        """Note that a worker takes no new work; it is greeted again much later."""
        worker = self.workers.get(peer)
        if worker is not None and worker.status is not Status.DROPPED:
            worker.status = Status.GONE
            worker.until = now + LONGEST_DEMOTION_S
            self._changed()

    def dropped(self, peer: PeerId) -> None:
        """Never ask this worker again: its result was wrong."""
        worker = self.workers.get(peer)
        if worker is not None:
            worker.status = Status.DROPPED
            self._changed()

    def not_held(self, peer: PeerId, layer: int, indices: Iterable[int]) -> None:
        """Note experts that a worker says it has not, until the next placement."""
        worker = self.workers.get(peer)
        if worker is not None:
            left = worker.experts.get(layer, frozenset()) - set(indices)
            worker.experts = {**worker.experts, layer: left}
            self._changed()

    def to_greet(self, now: float) -> list[PeerId]:
        """Return placed workers whose demotion or unanswered greeting is over."""
        settled = {Status.LIVE, Status.DROPPED}
        return [
            worker.peer
            for worker in self.workers.values()
            if worker.placed and worker.status not in settled and worker.until <= now
        ]

    def relax(self, now: float) -> None:
        """Let the estimates of idle workers fade, and compare all.

        To be called a few times a second. Slow ones do not fade: they are probed.
        """
        askable = [worker for worker in self.workers.values() if worker.askable]
        slow = slow_workers(
            [(worker.peer, worker.tier, worker.cost) for worker in askable],
            self._probes.slow,
        )
        for peer in self._probes.slow.keys() - slow:
            self.workers[peer].cost.forget_spread()
        if self._probes.update(slow, now):
            self._changed()
        for worker in askable:
            if worker.peer not in slow:
                worker.cost.relax()

    # Slow workers.

    @property
    def slow(self) -> Collection[PeerId]:
        """The workers that are slow beside their peers."""
        return self._probes.slow

    def to_probe(self, layer: int, expert: int, now: float) -> WorkerState | None:
        """Return a slow worker to be probed now that holds this expert, if any."""
        for peer in self._probes.slow:
            worker = self.workers[peer]
            holds = expert in worker.experts.get(layer, ())
            if holds and worker.askable and self._probes.is_due(peer, now):
                return worker
        return None

    def probed(self, peer: PeerId, now: float) -> None:
        """Note that a slow worker was probed: what comes of it will count."""
        self._probes.probed(peer, now)
        self.workers[peer].cost.relearn()

    def n_covered(self, at_hand: Mapping[int, Collection[int]]) -> int:
        """Count experts that are at hand (by layer) or have a holder that covers."""
        workers = [worker for worker in self.workers.values() if worker.covers]
        layers = set(at_hand).union(*(worker.experts for worker in workers))
        return sum(
            len(
                set(at_hand.get(layer, ())).union(
                    *(worker.experts.get(layer, ()) for worker in workers)
                )
            )
            for layer in layers
        )

    def covered(self) -> set[ExpertId]:
        """Return the experts with at least one holder that covers."""
        return {
            ExpertId(layer, index)
            for worker in self.workers.values()
            if worker.covers
            for layer, indices in worker.experts.items()
            for index in indices
        }

    def _changed(self) -> None:
        self._version += 1


def _by_layer(experts: Iterable[ExpertId]) -> dict[int, frozenset[int]]:
    lists: dict[int, set[int]] = {}
    for expert in experts:
        lists.setdefault(expert.layer, set()).add(expert.index)
    return {layer: frozenset(indices) for layer, indices in lists.items()}
