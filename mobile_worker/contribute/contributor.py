"""A worker on the network: routes every event of its node, and drains at the end.

What a message means is decided by the market side, the accounts, the serve loop and the
gatherer. Losing a backbone changes nothing here: it says HELLO again when it is back,
fetches from it wait, and what it was sent is kept for a while. Nothing a peer does ends
the worker but the market's refusal of its first offer.
"""

import logging
from dataclasses import dataclass

import trio

from ledger.errors import LedgerError
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.contribute.fallback import Fallback
from mobile_worker.contribute.figures import Figures
from mobile_worker.contribute.gathering import Gatherer
from mobile_worker.contribute.greeting import hello_ack, problem_of
from mobile_worker.contribute.last_leases import LastLeases
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.market_side import MarketSide
from mobile_worker.contribute.pausing import Pausing
from mobile_worker.contribute.relief import MemoryRelief
from mobile_worker.contribute.shard_service import ShardService
from mobile_worker.errors import LocalError
from mobile_worker.governor.governor import Governor
from mobile_worker.links.arrivals import take_each
from mobile_worker.links.events import (
    Arrived,
    NodeEvent,
    PeerBack,
    PeerLost,
    RelayChanged,
    Undelivered,
)
from mobile_worker.links.node import Node
from mobile_worker.links.service_watch import ABSENT
from mobile_worker.messages import MessageType
from mobile_worker.serve.canary import CanaryDesk
from mobile_worker.serve.server import ExpertServer
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.settling import Settling
from mobile_worker.shards.desk import BlobDesk
from relay.keys import PeerId, short_id

__all__ = ["Contributor", "ContributorParts"]

logger = logging.getLogger("p2pmoe.contribute")

_TICK_S = 0.25
_MAX_FILED = 64
_ACCEPT_SHARE = 0.25  # of the time for draining, to hear of the last servings


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributorParts:
    """What a worker is made of."""

    node: Node
    market: PeerId
    self_test: bytes
    clock: Clock
    leases: LeaseBook
    desk: BlobDesk
    shards: ShardService
    accounts: Accounts
    settling: Settling
    market_side: MarketSide
    gatherer: Gatherer
    server: ExpertServer
    figures: Figures
    relief: MemoryRelief
    fallback: Fallback
    last_leases: LastLeases
    governor: Governor
    pausing: Pausing
    canaries: CanaryDesk


class Contributor:
    """See the module."""

    def __init__(self, parts: ContributorParts) -> None:
        """Be ready to run."""
        self._parts = parts
        self._accepted = trio.Event()
        # Full: an answer of the ledger or a final is dropped; both come again.
        self._filed_in, self._filed_out = trio.open_memory_channel[
            tuple[PeerId, messages.Filed | messages.File]
        ](_MAX_FILED)

    async def run(self) -> None:
        """Work until cancelled, or until the node closes.

        Raises:
            MarketRefused: the market does not take this worker.
            StoreUnusable: the folder of shards cannot be used.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            nursery.start_soon(self._take_filed)
            nursery.start_soon(self._parts.shards.run)
            nursery.start_soon(self._parts.gatherer.run)
            nursery.start_soon(self._parts.server.run)
            nursery.start_soon(self._parts.canaries.run)
            nursery.start_soon(self._parts.settling.run)
            nursery.start_soon(self._parts.fallback.run)
            nursery.start_soon(self._parts.last_leases.run)
            nursery.start_soon(self._parts.governor.run)
            await take_each(self._parts.node.arrivals(), self.take)
            nursery.cancel_scope.cancel()

    async def drain(self, reason: str, *, within_s: float) -> bool:
        """Stop cleanly; True if everything accepted is signed and filed.

        No new dispatch is taken; what runs is finished; final vouchers are sent and
        filed; leases are given back.
        """
        parts = self._parts
        parts.server.is_draining = True
        parts.figures.facts.draining = reason
        parts.figures.update(parts.clock.monotonic())
        parts.market_side.leave(reason)
        for backbone in parts.leases.backbones:
            self._say(backbone, messages.Draining(reason=reason))
        with trio.move_on_after(within_s):
            await parts.server.idle()
            with trio.move_on_after(within_s * _ACCEPT_SHARE):
                while parts.accounts.n_open:
                    await self._accepted.wait()
            parts.accounts.close()
            parts.accounts.write_off()
            parts.settling.hurry()
            await parts.settling.settled()
        parts.market_side.end(reason)
        return parts.settling.is_settled

    def take(self, event: NodeEvent) -> None:
        """Act on one event.

        Raises:
            MarketRefused: the market does not take this worker.
        """
        match event:
            case Arrived(peer=peer, message=message):
                self._arrived(peer, message)
            case RelayChanged(up=up, detail=detail):
                self._relay_changed(up=up, detail=detail)
            case PeerLost(peer=peer) if peer == self._parts.market:
                self._parts.market_side.lost()
            case PeerBack(peer=peer):
                self._back(peer)
            case Undelivered(peer=peer, reason=reason) if peer == self._parts.market:
                is_absent = reason in ABSENT
                self._parts.market_side.undelivered(is_absent=is_absent)
            case _:
                pass

    def _arrived(self, peer: PeerId, message: messages.Message) -> None:
        parts = self._parts
        match message:
            case messages.Dispatch():
                parts.figures.dispatched(parts.clock.monotonic())
                parts.server.dispatched(peer, message)
            case messages.Cancel(request=request):
                parts.server.cancelled(peer, request)
            case messages.Accept():
                parts.accounts.accepted(peer, message, parts.clock.monotonic())
                parts.settling.wake()
                self._accepted.set()
                self._accepted = trio.Event()
            case messages.Blob():
                parts.desk.arrived(peer, message)
            case messages.Get():
                parts.shards.asked(peer, message)
            case _ if peer == parts.market:
                parts.market_side.said(message)
            case _:
                self._other_said(peer, message)

    def _other_said(self, peer: PeerId, message: messages.Message) -> None:
        parts = self._parts
        match message:
            case messages.Hello(ack=False):
                self._greeted(peer, message)
            case messages.Grant():
                self._granted(peer, message)
            case messages.Countersign():
                parts.settling.countersigned(peer, message)
            case messages.Filed() | messages.File():
                self._queue_filed(peer, message)
            case messages.Draining():
                parts.accounts.close(peer)
                parts.settling.wake()
            case _:
                logger.debug("%s of %s", type(message).__name__, short_id(peer))

    def _greeted(self, peer: PeerId, hello: messages.Hello) -> None:
        parts = self._parts
        problem = problem_of(peer, hello, parts.leases, parts.self_test)
        if parts.market_side.is_draining:
            problem = "this worker is draining"
        elif parts.pausing.greeted(peer):
            return
        if problem is not None:
            logger.info("backbone %s is refused: %s", short_id(peer), problem)
            what = int(MessageType.HELLO)
            self._say(peer, messages.Refused(what=what, reason=problem))
            return
        tab = parts.accounts.greeted(
            peer, hello.manifest_hash, hello.profile, hello.tab
        )
        self._say(peer, hello_ack(hello, parts.self_test, tab.terms.tab))
        parts.settling.greeted(peer)

    def _granted(self, peer: PeerId, grant: messages.Grant) -> None:
        try:
            self._parts.accounts.granted(peer, grant)
        except LedgerError as error:
            logger.warning("grant of %s: %s", short_id(peer), error)

    def _relay_changed(self, *, up: bool, detail: str) -> None:
        self._parts.figures.relay(up=up, detail=detail)
        logger.info("relay is %s: %s", "up" if up else "down", detail)
        if up:
            self._parts.market_side.reachable_again()
            self._parts.settling.hurry()

    def _back(self, peer: PeerId) -> None:
        """Try what waits for the market or the ledger: it may be listening again."""
        if peer == self._parts.market:
            self._parts.market_side.back()
        elif peer == self._parts.settling.ledger:
            self._parts.settling.hurry()

    def _queue_filed(
        self, peer: PeerId, message: messages.Filed | messages.File
    ) -> None:
        try:
            self._filed_in.send_nowait((peer, message))
        except trio.WouldBlock:
            logger.info("%s dropped; it is repeated", type(message).__name__)

    async def _take_filed(self) -> None:
        async for peer, message in self._filed_out:
            try:
                match message:
                    case messages.Filed():
                        await self._parts.settling.filed(peer, message)
                    case messages.File():
                        await self._parts.settling.offered(peer, message)
            except LedgerError as error:
                logger.warning("the spool of vouchers: %s", error)

    def look(self) -> None:
        """Look at the time, and act on what it or a person's wish has changed."""
        parts = self._parts
        now = parts.clock.monotonic()
        relay_is_up = parts.figures.facts.relay_is_up
        parts.pausing.tick(now)
        parts.market_side.tick(now, relay_is_up=relay_is_up)
        parts.relief.tick(now)
        parts.figures.facts.relay_heard_s = parts.node.relay_heard_s
        parts.figures.update(now)

    async def _keep_time(self) -> None:
        while True:
            self.look()
            await trio.sleep(_TICK_S)

    def _say(self, peer: PeerId, message: messages.Message) -> None:
        try:
            self._parts.node.send(peer, message)
        except LocalError as error:
            logger.info("to %s: %s", short_id(peer), error)
