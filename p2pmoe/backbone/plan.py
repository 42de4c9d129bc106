"""Which tier computes which expert of one layer: one cost model, one pure function.

`plan_layer` chooses RAM | disk | hub | edge for each (expert, rows) so that the layer
is done soonest; times are weighed by how much they vary (`risk`, cost.py). Rules:

- an expert at hand (RAM) is computed here: nothing beats it;
- otherwise a live holder; under `DiskPolicy.TIER` the disk competes by its cost, under
  `FALLBACK` it serves only experts without a live holder, under `OFF` never;
- one message per worker and layer, so the round trip is paid once: a worker already
  used by this layer costs only its compute and bytes for the next expert;
- experts with the fewest holders choose first; among holders nearly as good (within
  10 %) the one that has served least takes it, so replicas share the load;
- an expert that nobody can compute now is *stranded*, never skipped (fault B11).

Every call of the question is in exactly one place of the plan.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from p2pmoe.backbone.cost import LocalCost, WorkerCost
from p2pmoe.config import DiskPolicy
from relay.keys import PeerId

__all__ = [
    "ExpertRows",
    "Holder",
    "LayerPlan",
    "LayerQuestion",
    "Tier",
    "WorkerCalls",
    "plan_layer",
    "rows_of",
]

NEARLY = 1.1


class Tier(StrEnum):
    """Where an expert call is computed."""

    RAM = "ram"
    DISK = "disk"
    HUB = "hub"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertRows:
    """One expert of the layer and the rows (of the step's hidden states) it gets."""

    expert: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A live worker that holds the expert, with its running estimates."""

    peer: PeerId
    tier: Tier
    cost: WorkerCost


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCalls:
    """One message: all that one worker computes in this layer."""

    peer: PeerId
    tier: Tier
    calls: tuple[ExpertRows, ...]

    @property
    def n_rows(self) -> int:
        """Number of (expert, row) pairs."""
        return sum(len(call.rows) for call in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerQuestion:
    """What `plan_layer` needs to know of one layer.

    `row_bytes` is what one (expert, row) pair adds to both directions; `expert_bytes`
    what the disk must read for one expert; `holders` lists live holders only.
    """

    layer: int
    calls: Sequence[ExpertRows]
    at_hand: Container[int]
    holders: Mapping[int, Sequence[Holder]]
    disk: DiskPolicy
    local: LocalCost
    row_bytes: int
    expert_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """Each call of the question once: by tier, and by worker."""

    layer: int
    ram: tuple[ExpertRows, ...] = ()
    disk: tuple[ExpertRows, ...] = ()
    remote: tuple[WorkerCalls, ...] = ()
    stranded: tuple[ExpertRows, ...] = ()

    @property
    def away(self) -> Iterator[ExpertRows]:
        """The calls that the network is asked for."""
        for message in self.remote:
            yield from message.calls
        yield from self.stranded

    @property
    def waits(self) -> bool:
        """Whether the lane must wait for the network in this layer."""
        return bool(self.remote or self.stranded)


class _Assignment:
    """The plan as it grows: what each worker and the disk have so far."""

    def __init__(self, question: LayerQuestion) -> None:
        self.question = question
        self.by_peer: dict[PeerId, tuple[Holder, list[ExpertRows], float]] = {}
        self.disk: list[ExpertRows] = []
        self.disk_until = 0.0

    def remote_until(self, holder: Holder, n_rows: int) -> float:
        """Return when this worker would be done if it took n_rows more."""
        n_bytes = n_rows * self.question.row_bytes
        cost = holder.cost
        extra = (cost.expected_s(n_rows, n_bytes) - cost.rtt_s) * cost.risk
        taken = self.by_peer.get(holder.peer)
        idle = (cost.rtt_s + cost.queue_s()) * cost.risk
        return (idle if taken is None else taken[2]) + extra

    def to_worker(self, holder: Holder, call: ExpertRows) -> None:
        until = self.remote_until(holder, len(call.rows))
        calls = self.by_peer.get(holder.peer, (holder, [], 0.0))[1]
        self.by_peer[holder.peer] = (holder, [*calls, call], until)

    def disk_would_end(self, call: ExpertRows) -> float:
        """Return when the disk would be done with this call after its others."""
        return self.disk_until + self.question.local.disk_s(
            len(call.rows), self.question.expert_bytes
        )

    def to_disk(self, call: ExpertRows) -> None:
        self.disk_until = self.disk_would_end(call)
        self.disk.append(call)


def plan_layer(question: LayerQuestion) -> LayerPlan:
    """Return the cheapest plan for a layer's calls, as the module's rules say."""
    ram: list[ExpertRows] = []
    assignment = _Assignment(question)
    away: list[ExpertRows] = []
    for call in question.calls:
        (ram if call.expert in question.at_hand else away).append(call)
    away.sort(key=lambda call: (len(_holders(question, call)), call.expert))
    stranded = [call for call in away if not _place(assignment, call)]
    remote = tuple(
        WorkerCalls(peer=holder.peer, tier=holder.tier, calls=_ordered(calls))
        for holder, calls, _ in assignment.by_peer.values()
    )
    return LayerPlan(
        layer=question.layer,
        ram=tuple(ram),
        disk=_ordered(assignment.disk),
        remote=remote,
        stranded=_ordered(stranded),
    )


def rows_of(calls: Iterable[ExpertRows]) -> set[int]:
    """Return the rows that some calls need."""
    return {row for call in calls for row in call.rows}


def _place(assignment: _Assignment, call: ExpertRows) -> bool:
    """Put one call where it is done soonest; False if nobody can compute it now."""
    question = assignment.question
    holders = _holders(question, call)
    if not holders:
        if question.disk is DiskPolicy.OFF:
            return False
        assignment.to_disk(call)
        return True
    ends = [(assignment.remote_until(h, len(call.rows)), h) for h in holders]
    soonest = min(end for end, _ in ends)
    if question.disk is DiskPolicy.TIER and assignment.disk_would_end(call) < soonest:
        assignment.to_disk(call)
        return True
    near = [h for end, h in ends if end <= soonest * NEARLY]
    assignment.to_worker(min(near, key=lambda h: (h.cost.n_rows_sent, h.peer)), call)
    return True


def _holders(question: LayerQuestion, call: ExpertRows) -> Sequence[Holder]:
    return question.holders.get(call.expert, ())


def _ordered(calls: Sequence[ExpertRows]) -> tuple[ExpertRows, ...]:
    return tuple(sorted(calls, key=lambda call: call.expert))
