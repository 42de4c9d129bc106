"""The seam between dispatching and settlement: numbers before, facts after.

`Accounts.number` hands out serving numbers of a worker's tab before a dispatch is sent,
or None when the worker must not be asked (no tab, no grant, float reached). `accept`
takes the facts of an answer that was valid and in time; `abandon` gives back the risk
of numbers that will never be accepted (the numbers themselves are not used again).
None of them computes or waits: hashes are made later, off the hot path.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mobile_worker.arithmetic.coding import ExpertInput
from p2pmoe.backbone.outputs import CallResult
from relay.keys import PeerId

__all__ = ["Accounts", "Means", "Served", "ServingSlot"]


class Means(StrEnum):
    """Whether we can pay a worker for a further call."""

    NONE = "none"  # no tab, no grant, or nothing is signed for it any more
    FULL = "full"  # its float is full: the next voucher makes room
    ROOM = "room"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSlot:
    """Consecutive serving numbers of one tab, reserved for one dispatch."""

    peer: PeerId
    tab: bytes  # [8]
    first: int  # u32
    n: int
    n_rows: int
    price_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """One accepted answer: call i of it is serving `slot.first + i`.

    `rows` are the step's coded rows; `results` name the rows of each call in them.
    """

    slot: ServingSlot
    request: int
    layer: int
    nonce: bytes  # [8]
    rows: ExpertInput
    results: tuple[CallResult, ...]


class Accounts(Protocol):
    """What the dispatcher needs of the settlement."""

    def room(self, peer: PeerId) -> int:
        """Return how many calls this worker may be sent now."""
        ...

    def number(self, peer: PeerId, n_calls: int, n_rows: int) -> ServingSlot | None:
        """Reserve serving numbers, or None if this worker must not be asked now."""
        ...

    def accept(self, served: Served) -> None:
        """Note an answer that was valid and in time: it will be paid."""
        ...

    def abandon(self, slot: ServingSlot) -> None:
        """Note that these numbers will never be accepted."""
        ...

    def withhold(self, peer: PeerId) -> None:
        """Sign nothing more for this worker: it was caught with a wrong result."""
        ...

    def refused_for_grant(self, peer: PeerId) -> None:
        """Note that the worker itself says it lacks a grant or room in its float."""
        ...
