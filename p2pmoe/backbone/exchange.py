"""What the decode thread and the trio side hand each other for one layer.

The decode thread makes a `LayerWork`, gives it to the dispatcher, computes what is
local, then reads `replies` until the layer is complete. Replies are:

- `ComputeHere`: these calls are yours now, nobody else will answer them;
- `HeldByNobody`: these calls are yours too; nobody can compute them now, and the policy
  for missing experts is not to wait (`LayerWork.missing`);
- `LayerDone`: every other call, each expert once, and which results to check;
- `LayerFailed`: the request ends with this error.

Exactly one `LayerDone` or `LayerFailed` ends a work; a layer never ends with some of
its calls missing (fault B11).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from typing import TypeAlias

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.plan import ExpertRows, LayerPlan
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import RequestFailed
from relay.keys import PeerId

__all__ = [
    "CheckTicket",
    "ComputeHere",
    "HeldByNobody",
    "LayerDone",
    "LayerFailed",
    "LayerWork",
    "Reason",
    "Replies",
    "Reply",
]


class Reason(StrEnum):
    """Why calls had to go elsewhere than planned."""

    LOST = "lost"  # the worker's link or process is gone
    LATE = "late"
    REFUSED = "refused"  # its answer was not what was asked for
    ERROR = "error"  # it said that it cannot
    ARITH = "arith"  # it met a non-finite value
    CHECK = "check"  # a spot check caught it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTicket:
    """A remote answer of which the decode thread should compare `sample` with its own.

    If that differs, none of `calls` is taken. The worker cannot tell what is sampled.
    """

    number: int
    peer: PeerId
    calls: tuple[ExpertRows, ...]
    sample: ExpertRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeHere:
    """Calls handed back to the decode thread for good."""

    calls: tuple[ExpertRows, ...]
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByNobody:
    """Calls without any holder, for the decode thread to decide on."""

    calls: tuple[ExpertRows, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerDone:
    """All remote results by expert index, f32 [n_rows, n_embd] each."""

    values: Mapping[int, Floats]
    checks: tuple[CheckTicket, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFailed:
    """The request is over."""

    error: RequestFailed


Reply: TypeAlias = ComputeHere | HeldByNobody | LayerDone | LayerFailed


class Replies:
    """The way back: the trio side puts, one decode thread takes and may wait."""

    __slots__ = ("_queue", "_rings")

    def __init__(self) -> None:
        """Begin empty."""
        self._queue: SimpleQueue[Reply] = SimpleQueue()
        self._rings: Callable[[], None] | None = None

    def put(self, reply: Reply) -> None:
        """Add a reply (the trio thread)."""
        self._queue.put(reply)
        if self._rings is not None:
            self._rings()

    def get(self) -> Reply:
        """Take the oldest reply; blocks until there is one."""
        return self._queue.get()

    def empty(self) -> bool:
        """Tell whether there is nothing to take now."""
        return self._queue.empty()

    def notify(self, ring: Callable[[], None]) -> None:
        """Have `ring` called for each reply from now on, and for those there are.

        It may be called from any thread, and once too often; it must not block.
        """
        self._rings = ring
        if not self._queue.empty():
            ring()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerWork:
    """The remote part of one layer and step; times on the process's monotonic clock.

    `rows` holds all rows of the step, coded once, so that every worker sees the same
    bytes. `local_allowed` says whether the decode thread can compute any expert itself
    (a disk tier is there). Calls that nobody holds wait `patience_s` for a holder, None
    until the deadline; or they come back at once, as `missing` says. Workers in
    `barred` are never asked.
    """

    plan: LayerPlan
    rows: ExpertInput
    n_embd: int
    profile: Profile
    deadline: float
    local_allowed: bool
    trace: StepTrace
    patience_s: float | None = None
    missing: MissingPolicy = MissingPolicy.WAIT
    barred: frozenset[PeerId] = frozenset()
    replies: Replies = field(default_factory=Replies)
