"""What a worker does when it rests, and when it goes on: the governor's word, acted on.

Rules:
- A pause refuses new dispatches with DRAINING, which is no fault; backbones are told at
  once and ask others. What runs is finished, answered and signed. Nothing is fetched,
  and no shard is given away.
- Leases are kept and renewed while a pause is short: below 10 minutes the market hears
  nothing of it. One whose end is known to be later, a user's without an end, and any
  that has lasted so long give the leases up: the market hears DRAINING, memory is
  freed, and others are asked to hold what was held here.
- Going on takes a round trip: each backbone hears HELLO with the tab that is open.
  After a long pause the worker offers again; shards come from its store.
- A worker that drains is not brought back by anything here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mobile_worker import messages
from mobile_worker.arithmetic.kernel import Kernel, KernelOnThreads
from mobile_worker.contribute.gathering import Gatherer
from mobile_worker.contribute.greeting import hello_again
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.market_side import MarketSide
from mobile_worker.contribute.relief import MemoryRelief
from mobile_worker.contribute.shard_service import ShardService
from mobile_worker.errors import LocalError
from mobile_worker.governor.governor import Governor
from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.policy import Decision
from mobile_worker.links.node import Node
from mobile_worker.messages.codec import Message
from mobile_worker.serve.held import HeldExperts
from mobile_worker.serve.server import ExpertServer
from mobile_worker.servings.accounts import Accounts
from relay.keys import PeerId, short_id

__all__ = ["LONG_S", "Pausing", "PausingParts", "Working", "is_long"]

logger = logging.getLogger("p2pmoe.contribute")

LONG_S: Final = 600.0
_MAX_REASON_CHARS: Final = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """What works, and rests in a pause."""

    held: HeldExperts
    gatherer: Gatherer
    shards: ShardService
    server: ExpertServer
    relief: MemoryRelief


@dataclass(frozen=True, slots=True, kw_only=True)
class PausingParts:
    """What is told and changed. memory_of: bytes for experts under the limits now."""

    governor: Governor
    node: Node
    kernel: Kernel
    self_test: bytes
    leases: LeaseBook
    accounts: Accounts
    market_side: MarketSide
    working: Working
    memory_of: Callable[[], int]


def is_long(pauses: tuple[Pause, ...], since: float, now: float) -> bool:
    """Whether a pause that began at `since` lasts so long that leases are given up."""
    if now - since >= LONG_S:
        return True
    ends = [pause.ends_at for pause in pauses if pause.ends_at is not None]
    without_end = any(p.cause is Cause.USER and p.ends_at is None for p in pauses)
    return without_end or max(ends, default=now) - now >= LONG_S


class Pausing:
    """See the module."""

    def __init__(self, parts: PausingParts) -> None:
        self._parts = parts
        self._since: float | None = None  # it rests since then
        self._counted = (0, 0)  # bytes of the node: sent, received
        self._memory_bytes = parts.memory_of()

    def tick(self, now: float) -> None:
        """Hear the governor, and act on what changed."""
        parts = self._parts
        self._count_traffic()
        decision = parts.governor.tick()
        self._apply(decision)
        if decision.pauses:
            self._rest(decision.pauses, now)
        elif self._since is not None:
            self._go_on()

    def greeted(self, peer: PeerId) -> bool:
        """Answer a backbone that says HELLO while this worker rests; False if not."""
        if self._since is None:
            return False
        self._say(peer, messages.Draining(reason=self._parts.working.server.paused))
        return True

    def _apply(self, decision: Decision) -> None:
        parts = self._parts
        parts.working.server.use_threads(decision.n_threads)
        parts.working.server.duty = decision.duty
        if isinstance(parts.kernel, KernelOnThreads):
            parts.kernel.use_threads(decision.n_threads)
        rate = parts.governor.limits.up_bytes_s
        parts.working.server.pace.allow(rate)
        parts.working.shards.pace = parts.working.server.pace
        memory_bytes = parts.memory_of()
        if memory_bytes != self._memory_bytes:
            is_more = memory_bytes > self._memory_bytes
            self._memory_bytes = memory_bytes
            parts.working.relief.hold_at_most(memory_bytes, "its limit was changed")
            if is_more:
                parts.market_side.reachable_again()  # so that it hears of it

    def _rest(self, pauses: tuple[Pause, ...], now: float) -> None:
        parts = self._parts
        reason = f"paused {pauses[0].cause}: {pauses[0].reason}"[:_MAX_REASON_CHARS]
        parts.working.server.paused = reason
        if self._since is None:
            self._since = now
            logger.info("%s", reason)
            parts.working.gatherer.pause(is_paused=True)
            parts.working.shards.is_paused = True
            for backbone in parts.leases.backbones:
                self._say(backbone, messages.Draining(reason=reason))
        has_no_leases = not len(parts.leases)  # so it must not be given any
        if has_no_leases or is_long(pauses, self._since, now):
            parts.market_side.rest(reason)

    def _go_on(self) -> None:
        parts = self._parts
        self._since = None
        parts.working.server.paused = ""
        parts.working.gatherer.pause(is_paused=False)
        parts.working.shards.is_paused = False
        parts.market_side.go_on()
        if parts.market_side.is_draining:
            return
        logger.info("goes on")
        for peer, tab in parts.accounts.in_use():
            if parts.leases.holds_for(peer, tab.terms.manifest_hash):
                self._say(peer, hello_again(tab.terms, parts.self_test))

    def _count_traffic(self) -> None:
        traffic = self._parts.node.traffic
        up, down = sum(traffic.up_bytes.values()), sum(traffic.down_bytes.values())
        before_up, before_down = self._counted
        self._counted = (up, down)
        self._parts.governor.spent(
            up_bytes=up - before_up, down_bytes=down - before_down
        )

    def _say(self, peer: PeerId, message: Message) -> None:
        try:
            self._parts.node.send(peer, message)
        except LocalError as error:
            logger.info("to %s: %s", short_id(peer), error)
