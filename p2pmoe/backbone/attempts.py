"""One dispatch under way: its message, its deadline, and the layer it belongs to.

`build_dispatch` makes the message of one worker and layer: only the rows that this
worker needs, each once, coded already; call i names its rows by their place in the
message. `Deadlines` orders requests by the moments at which something is to be done
about them. Pure; times are the caller's monotonic seconds.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.messages.serving import CodedTensor, Dispatch, ExpertCall
from p2pmoe.backbone.exchange import CheckTicket, LayerWork
from p2pmoe.backbone.outputs import CallResult, OutputShape
from p2pmoe.backbone.plan import ExpertRows, Tier
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.servings import Served, ServingSlot
from relay.keys import PeerId

__all__ = ["Attempt", "Deadlines", "Purpose", "build_dispatch", "payload_bytes"]

_F32 = np.dtype("<f4")
_HEADER_BYTES = 120  # of a DISPATCH, about: for estimates only


class Purpose(StrEnum):
    """What a DISPATCH is for."""

    CALL = "call"  # planned, or moved from a worker that failed
    HEDGE = "hedge"  # what another worker is slow with
    PROBE = "probe"  # whether a slow worker has become quicker


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """One DISPATCH that was sent and has not been answered.

    `expected_s` is what it was expected to take, the worker's queue included.
    """

    request: int
    purpose: Purpose
    peer: PeerId
    tier: Tier
    calls: tuple[ExpertRows, ...]
    slot: ServingSlot
    nonce: bytes
    sent_at: float
    deadline: float
    expected_s: float
    n_bytes_up: int
    progress: Progress

    @property
    def n_rows(self) -> int:
        """Number of (expert, row) pairs."""
        return self.slot.n_rows

    @property
    def experts(self) -> frozenset[int]:
        """The experts that it asks for."""
        return frozenset(call.expert for call in self.calls)

    @property
    def is_beaten(self) -> bool:
        """Whether another answer was taken for one of its calls."""
        return not self.experts.isdisjoint(self.progress.taken)

    @property
    def shape(self) -> OutputShape:
        """What its answer must look like."""
        work = self.progress.work
        return OutputShape(calls=self.calls, profile=work.profile, n_embd=work.n_embd)

    def ticket(self, calls: tuple[ExpertRows, ...], sample: ExpertRows) -> CheckTicket:
        """Return the order to check one of the `calls` that were taken from it."""
        return CheckTicket(
            number=self.request, peer=self.peer, calls=calls, sample=sample
        )

    def served(self, results: Sequence[CallResult]) -> Served:
        """Return the facts of its valid answer."""
        return Served(
            slot=self.slot,
            request=self.request,
            layer=self.progress.work.plan.layer,
            nonce=self.nonce,
            rows=self.progress.work.rows,
            results=tuple(results),
        )


class Deadlines:
    """Requests by moment; one may stand at several, answered ones stay until theirs."""

    def __init__(self) -> None:
        """Begin empty."""
        self._heap: list[tuple[float, int]] = []

    def add(self, deadline: float, request: int) -> None:
        """Remember a moment of a request."""
        heapq.heappush(self._heap, (deadline, request))

    def due(self, now: float) -> list[int]:
        """Take out and return the requests of which a moment has passed."""
        late = []
        while self._heap and self._heap[0][0] <= now:
            late.append(heapq.heappop(self._heap)[1])
        return late

    @property
    def next(self) -> float | None:
        """The earliest moment, of an answered request perhaps."""
        return self._heap[0][0] if self._heap else None


def build_dispatch(attempt: Attempt) -> Dispatch:
    """Return the message that asks the attempt's worker for its calls."""
    work, slot = attempt.progress.work, attempt.slot
    rows, calls = _needed(work.rows, attempt.calls)
    coded = floats = None
    if rows.coded is not None:
        coded = CodedTensor(
            codes=rows.coded.codes.tobytes(),
            scales=rows.coded.scales.astype(_F32, copy=False).tobytes(),
        )
    if rows.floats is not None:
        floats = rows.floats.astype(_F32, copy=False).tobytes()
    return Dispatch(
        request=attempt.request,
        tab=slot.tab,
        first_serving=slot.first,
        layer=work.plan.layer,
        deadline_ms=int((attempt.deadline - attempt.sent_at) * 1000) + 1,
        price_epoch=slot.price_epoch,
        nonce=attempt.nonce,
        profile=int(work.profile),
        n_embd=work.n_embd,
        coded=coded,
        floats=floats,
        n_rows=rows.n_rows,
        calls=calls,
    )


def _needed(
    rows: ExpertInput, calls: Sequence[ExpertRows]
) -> tuple[ExpertInput, tuple[ExpertCall, ...]]:
    """Return the rows that are needed, and the calls by their place among these."""
    wanted = {row for call in calls for row in call.rows}
    if len(wanted) == rows.n_rows:
        return rows, tuple([ExpertCall(index=c.expert, rows=c.rows) for c in calls])
    needed = sorted(wanted)
    place = {row: at for at, row in enumerate(needed)}
    return rows.take(np.array(needed, np.int64)), tuple(
        ExpertCall(index=call.expert, rows=tuple(place[row] for row in call.rows))
        for call in calls
    )


def payload_bytes(work: LayerWork, calls: Sequence[ExpertRows]) -> int:
    """Return about how many bytes `build_dispatch` gives for these calls."""
    n_rows = len({row for call in calls for row in call.rows})
    n_bytes = _HEADER_BYTES + sum(8 + 2 * len(call.rows) for call in calls)
    if work.rows.coded is not None:
        n_bytes += n_rows * work.n_embd * 36 // 32
    if work.rows.floats is not None:
        n_bytes += n_rows * work.n_embd * 4
    return n_bytes
