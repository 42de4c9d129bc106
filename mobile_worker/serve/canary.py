"""Answers CANARY: experts computed on rows that nobody could know before, hashed.

    market -> CANARY -> desk -> one expert after the other, below work -> CANARY_ANSWER

An answer names each expert that was computed with the `out_hash` of its results; where
the rows give no finite result, that of no bytes, which is the same everywhere, too.
What is not named has a reason, and is no fault.

Rules: work comes first; before each of its experts a canary waits until nothing else
waits or runs, for half of its time at most. It ends with its time, or once `refusal`
gives a reason, and what is computed by then is said. At most 8 wait; more are answered
at once with a reason. One thread computes, one expert at a time.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.errors import ArithmeticRefused, NonFinite
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.clock import Clock
from mobile_worker.errors import LocalError
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, CanaryAnswer
from mobile_worker.serve.canary_rows import canary_rows
from mobile_worker.servings.hashes import out_hash
from mobile_worker.servings.opened_rows import rows_from

__all__ = ["CanaryDesk", "CanaryModel", "CanaryParts", "canary_hash"]

logger = logging.getLogger("p2pmoe.serve")

_MAX_WAITING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryModel:
    """One model as canaries need it. `weights` blocks; None: it is not here."""

    n_embd: int
    weights: Callable[[ExpertId], ExpertWeights | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryParts:
    """What a desk works with.

    find: the model of a manifest hash. send: to the market. idle: waits until no work
    waits or runs. refusal: why nothing is computed now, "" if it is.
    """

    kernel: Kernel
    find: Callable[[bytes], CanaryModel | None]
    send: Callable[[CanaryAnswer], None]
    clock: Clock
    idle: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    refusal: Callable[[], str] = lambda: ""


def canary_hash(
    canary: Canary, expert: ExpertId, model: CanaryModel, kernel: Kernel
) -> bytes | None:
    """Return the hash of one expert's results, None if it is not here.

    Raises:
        ArithmeticRefused: the canary's rows or its profile are none.
    """
    weights = model.weights(expert)
    if weights is None:
        return None
    rows = _rows(canary, expert, model.n_embd)
    try:
        return out_hash(kernel.expert(weights, rows, _profile(canary)))
    except NonFinite:
        return out_hash(b"")


def _rows(canary: Canary, expert: ExpertId, n_embd: int) -> ExpertInput:
    if canary.seed:
        return canary_rows(canary.seed, expert, canary.n_rows, n_embd)
    return rows_from(canary.rows, canary.n_rows, n_embd)


def _profile(canary: Canary) -> Profile:
    try:
        return Profile(canary.profile)
    except ValueError as exc:
        raise ArithmeticRefused(f"profile {canary.profile} is unknown") from exc


class CanaryDesk:
    """Takes canaries of the market in and answers each once."""

    def __init__(self, parts: CanaryParts) -> None:
        """Begin with none; `run` does the work."""
        self._parts = parts
        self.n_answered = 0
        # Full: answered at once with a reason; the market asks another time.
        self._send, self._receive = trio.open_memory_channel[tuple[Canary, float]](
            _MAX_WAITING
        )

    def asked(self, canary: Canary) -> None:
        """Queue a canary; only the market's are to be handed in."""
        try:
            self._send.send_nowait((canary, self._parts.clock.monotonic()))
        except trio.WouldBlock:
            self._answer(canary, {}, "too many canaries wait")

    async def run(self) -> None:
        """Answer what comes, until cancelled."""
        limiter = trio.CapacityLimiter(1)
        async for canary, received_at in self._receive:
            hashes: dict[ExpertId, bytes] = {}
            reason = await self._compute(canary, received_at, hashes, limiter)
            self._answer(canary, hashes, reason)

    async def _compute(
        self,
        canary: Canary,
        received_at: float,
        hashes: dict[ExpertId, bytes],
        limiter: trio.CapacityLimiter,
    ) -> str:
        """Fill `hashes`; return why experts are left out, "" if none is."""
        parts, within_s = self._parts, canary.within_ms / 1000
        model = parts.find(canary.manifest_hash)
        if model is None:
            return "the model is not held here"
        missing = 0
        for expert in canary.experts:
            await self._let_work_go_first(received_at + within_s / 2)
            if reason := parts.refusal():
                return reason
            if parts.clock.monotonic() >= received_at + within_s:
                return "there was no time left beside work"
            try:
                found = await trio.to_thread.run_sync(
                    canary_hash, canary, expert, model, parts.kernel, limiter=limiter
                )
            except ArithmeticRefused as error:
                return f"the canary is refused: {error}"
            if found is None:
                missing += 1
            else:
                hashes[expert] = found
        return f"{missing} experts are not held here" if missing else ""

    async def _let_work_go_first(self, until: float) -> None:
        with trio.move_on_after(max(0.0, until - self._parts.clock.monotonic())):
            await self._parts.idle()

    def _answer(
        self, canary: Canary, hashes: dict[ExpertId, bytes], reason: str
    ) -> None:
        self.n_answered += 1
        if reason:
            logger.info("canary %d: %s", canary.number, reason)
        try:
            self._parts.send(
                CanaryAnswer(
                    number=canary.number,
                    experts=tuple(hashes),
                    hashes=b"".join(hashes.values()),
                    reason=reason[:150],
                )
            )
        except LocalError as error:
            logger.info("canary %d is not answered: %s", canary.number, error)
