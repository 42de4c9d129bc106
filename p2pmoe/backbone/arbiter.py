"""Says which of two workers' answers for one call is right, when they differ.

    this machine   computes the call, if it has the expert at hand or on its disk
    a third one    is asked otherwise: the best known holder that is neither of the two

Expert arithmetic is exact, so right is what equals to the bit. Of a third worker's word
only agreement counts: it cannot make both wrong, and it convicts nobody who is better
known than itself, unless it is past a newcomer's checks: names are cheap. Where the
answer that was taken, and perhaps signed for, is the wrong one, its rows are kept in a
file: with it and the serving's receipt the backbone's operator can dispute (ADR 40).

Rules: disputes wait in a bounded queue, one is looked into at a time, off the decode
path; what does not fit is undecided. Nothing here can end the service.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import trio

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.arithmetic.profiles import decode_result
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.audits import Dispute
from p2pmoe.backbone.exchange import LayerDone, LayerWork
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.plan import Holder, LayerPlan, WorkerCalls
from p2pmoe.backbone.progress import Taken
from p2pmoe.backbone.spot_checks import SpotChecks
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.weights.errors import ModelFileError
from relay.keys import PeerId

__all__ = ["Arbiter", "ArbiterParts", "Court", "opened_rows"]

log = logging.getLogger("p2pmoe.dispatcher")

MAX_WAITING = 16
MAX_FILES = 64
THIRD_S = 5.0  # for a third worker's answer


class Court(Protocol):
    """What asks for verdicts and takes them; a `Dispatcher` is one."""

    def start(self, work: LayerWork) -> None:
        """Send all remote calls of a layer."""
        ...

    def cancel(self, step: StepTrace) -> None:
        """Stop a step; its answers that wait for a check are paid."""
        ...

    def ruled(self, number: int, right: bytes | None) -> None:
        """Take the verdict on a dispute."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterParts:
    """What an arbiter works with.

    `compute` blocks, and returns the coded results of an expert, or raises
    ModelFileError where this machine has it not; `folder` is where rows are kept.
    """

    compute: Callable[[ExpertId, ExpertInput], bytes]
    fleet: Fleet
    clock: Callable[[], float]
    folder: Path | None = None
    checks: SpotChecks = field(default_factory=SpotChecks)


class Arbiter:
    """Looks into disputes, one after the other."""

    def __init__(self, parts: ArbiterParts) -> None:
        """Begin with none; `run` does the work."""
        self._parts = parts
        self._send, self._receive = trio.open_memory_channel[Dispute](MAX_WAITING)

    def take(self, dispute: Dispute) -> bool:
        """Queue a dispute; False if too many wait: it stays undecided."""
        try:
            self._send.send_nowait(dispute)
        except trio.WouldBlock:
            return False
        return True

    async def run(self, court: Court) -> None:
        """Look into what comes, until cancelled."""
        async for dispute in self._receive:
            right = await trio.to_thread.run_sync(self._computed, dispute)
            if right is None:
                right = await self._third(court, dispute)
            court.ruled(dispute.number, right)
            taken = dispute.sides[0]
            if right is not None and taken.coded != right:
                await trio.to_thread.run_sync(self._keep, dispute, taken)

    def _computed(self, dispute: Dispute) -> bytes | None:
        expert = ExpertId(dispute.work.plan.layer, dispute.call.expert)
        try:
            return self._parts.compute(expert, _rows(dispute))
        except (ModelFileError, ArithmeticRefused) as error:
            log.info("expert %s cannot be computed here: %s", expert, error)
            return None

    async def _third(self, court: Court, dispute: Dispute) -> bytes | None:
        """Return the side that a third worker agrees with; None if there is none."""
        sides = dispute.sides
        third = self._known_best(dispute)
        if third is None:
            return None
        work = self._question(dispute, third)
        answered = trio.Event()
        work.replies.notify(answered.set)  # called on this thread, by the dispatcher
        court.start(work)
        with trio.move_on_after(2 * THIRD_S):
            await answered.wait()
        reply = None if work.replies.empty() else work.replies.get()
        court.cancel(work.trace)  # nobody here checks the third one's answer
        if not isinstance(reply, LayerDone):
            return None
        said = reply.values[dispute.call.expert].tobytes()  # -0.0 is not 0.0
        is_same = [_values(dispute, side).tobytes() == said for side in sides]
        if sum(is_same) != 1:
            return None
        agreeing, other = sides if is_same[0] else reversed(sides)
        return agreeing.coded if self._may_convict(third.peer, other.peer) else None

    def _may_convict(self, third: PeerId, other: PeerId) -> bool:
        workers, checks = self._parts.fleet.workers, self._parts.checks
        passes = workers[third].passes
        return checks.vouches(passes) or passes >= workers[other].passes

    def _known_best(self, dispute: Dispute) -> Holder | None:
        fleet, sides = self._parts.fleet, {side.peer for side in dispute.sides}
        holders = fleet.holders(dispute.work.plan.layer)
        others = holders.get(dispute.call.expert, ())
        thirds = [holder for holder in others if holder.peer not in sides]
        return max(thirds, key=lambda h: fleet.workers[h.peer].passes, default=None)

    def _question(self, dispute: Dispute, third: Holder) -> LayerWork:
        """Return the call as a layer of its own, for this worker and no other."""
        asked, layer = dispute.work, dispute.work.plan.layer
        message = WorkerCalls(peer=third.peer, tier=third.tier, calls=(dispute.call,))
        return LayerWork(
            plan=LayerPlan(layer=layer, remote=(message,)),
            rows=asked.rows,
            n_embd=asked.n_embd,
            profile=asked.profile,
            deadline=self._parts.clock() + THIRD_S,
            local_allowed=False,
            trace=StepTrace.of(RequestTrace(), asked.rows.n_rows),
            barred=frozenset(self._parts.fleet.workers.keys() - {third.peer}),
        )

    def _keep(self, dispute: Dispute, side: Taken) -> None:
        """Keep the rows of a serving that was taken and is wrong, for a dispute."""
        folder = self._parts.folder
        if folder is None:
            return
        path = folder / f"{side.slot.tab.hex()}-{side.serving}.rows"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if sum(1 for _ in folder.iterdir()) >= MAX_FILES:
                log.warning("%s is full: rows of a dispute are not kept", folder)
                return
            path.write_bytes(opened_rows(_rows(dispute)))
        except OSError as error:
            log.warning("rows of a dispute are not kept: %s", error.strerror)
            return
        log.warning(
            "serving %d of tab %s is wrong; its rows are kept in %s",
            side.serving,
            side.slot.tab.hex(),
            path,
        )


def opened_rows(rows: ExpertInput) -> bytes:
    """Return the bytes that a leaf's `x_hash` is the hash of."""
    coded, floats = rows.coded, rows.floats
    raw = b""
    if coded is not None:
        raw += coded.codes.tobytes() + coded.scales.astype("<f4").tobytes()
    if floats is not None:
        raw += floats.astype("<f4").tobytes()
    return raw


def _rows(dispute: Dispute) -> ExpertInput:
    return dispute.work.rows.take(np.array(dispute.call.rows, np.int64))


def _values(dispute: Dispute, side: Taken) -> np.ndarray:
    work = dispute.work
    n_rows = len(dispute.call.rows)
    return decode_result(side.coded, work.profile, n_rows, work.n_embd)
