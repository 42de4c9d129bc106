"""Between this worker and the market: offers, leases, renewals, reports.

Rules:
- A lease counts only if its record is its backbone's own and the market signed its
  price table; one that does not verify is not taken, with one line in the log.
- With the market lost, or forgetful, the worker offers again. Every message here is
  repeated by its own clock, so that none is missed for good.
- While our link to the relay is down no lease lapses: those who reach us directly are
  served, and the market is asked as soon as it can be. Nor does one while the market is
  away, for 24 hours (fallback.py).
- After a suspension nothing that was leased is believed any more.
- A worker that rests for long says DRAINING and offers again when it goes on; its
  leases are not released, since the market would take that for what it cannot hold.
- An offer refused before any lease ends the worker with the market's words.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ledger.errors import LedgerError
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.contribute.errors import MarketRefused
from mobile_worker.contribute.last_leases import LastLeases
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.offering import OfferTimes
from mobile_worker.contribute.own_standing import OwnStanding
from mobile_worker.contribute.suspension import SuspensionWatch
from mobile_worker.errors import LocalError, RecordError
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.node import Node
from mobile_worker.links.service_watch import ServiceWatch
from mobile_worker.messages import MessageType
from mobile_worker.servings.accounts import Accounts
from mobile_worker.session.records import PeerRecord, parse_record
from relay.keys import PeerId

if TYPE_CHECKING:
    from mobile_worker.contribute.fallback import Fallback

__all__ = ["MarketParts", "MarketSide"]

logger = logging.getLogger("p2pmoe.contribute")

_MAX_REASON_CHARS = 150

OnLeases = Callable[[], None]
OnCanary = Callable[[messages.Canary], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketParts:
    """What the market side works with. `offer` is sent with the node's own record."""

    node: Node
    market: PeerId
    offer: messages.Offer
    clock: Clock
    leases: LeaseBook
    accounts: Accounts
    last: LastLeases
    watch: ServiceWatch


class MarketSide:
    """See the module.

    `on_leases` is called whenever the set of experts changed, `on_canary` with each
    canary. `standing` is what the market told of it last.
    """

    def __init__(self, parts: MarketParts) -> None:
        """Offer at the first tick."""
        self.on_leases: OnLeases = lambda: None
        self.on_canary: OnCanary = lambda _: None
        self.standing = OwnStanding()
        self.fallback: Fallback | None = None
        self.is_draining = False
        self.is_resting = False
        self._parts = parts
        self._offers = OfferTimes()
        self._suspension = SuspensionWatch()
        self._was_leased = False

    @property
    def is_asking(self) -> bool:
        """Whether it asks for experts and may hear in a moment that there are some."""
        return self._offers.is_first

    def said(self, message: messages.Message) -> None:
        """Take a message of the market.

        Raises:
            MarketRefused: it does not take this worker at all.
        """
        self._parts.watch.heard()
        match message:
            case messages.Lease():
                self._leased(message)
            case messages.Release(lease=lease, experts=experts):
                self._parts.leases.release(lease, experts)
                self.on_leases()
            case messages.Canary():
                self.on_canary(message)
            case messages.Standing():
                self._stands(message)
            case messages.Refused(what=MessageType.OFFER, reason=reason):
                if not self._was_leased:
                    raise MarketRefused(f"the market refuses this worker: {reason}")
                logger.warning("the market refuses the offer: %s", reason)
                self._offers.unanswered()
            case messages.Refused(reason=reason):
                logger.info("the market does not know a lease: %s", reason)
                self._parts.leases.doubt(self._parts.clock.monotonic())
                self._offers.start_over()
            case _:
                logger.debug("%s of the market", type(message).__name__)

    def reachable_again(self) -> None:
        """The market, or the way to it, may be another: offer at once."""
        self._offers.start_over()

    def back(self) -> None:
        """The relay has the market again: leases are the market's from now on."""
        self._parts.watch.heard()
        self._offers.start_over()

    def lost(self) -> None:
        """The market is gone, or is a new process: offer at once, and see."""
        self._parts.watch.missed(self._parts.clock.monotonic())
        self._offers.start_over()

    def undelivered(self, *, is_absent: bool) -> None:
        """Something said to the market did not arrive: offer when the pause is over."""
        if is_absent:
            self._parts.watch.missed(self._parts.clock.monotonic())
        self._offers.unanswered()

    def offer(self) -> messages.Offer:
        """Return what is offered now."""
        record = self._parts.node.record.encoded
        return replace(self._parts.offer, record=record)

    def give_back(
        self, lease: bytes, experts: tuple[ExpertId, ...], reason: str
    ) -> None:
        """Tell the market that experts cannot be held here."""
        self._release(lease, experts, reason)

    def offer_memory(self, memory_bytes: int) -> None:
        """Offer so much memory from now on, whenever the next offer is due."""
        self._parts = replace(
            self._parts, offer=replace(self._parts.offer, memory_bytes=memory_bytes)
        )

    def rest(self, reason: str) -> None:
        """Give the leases up for a long pause; offer nothing until `go_on`."""
        if self.is_draining or self.is_resting:
            return
        self._set_resting(is_resting=True)
        self._say(messages.Draining(reason=reason[:_MAX_REASON_CHARS]))
        self._parts.leases.drop_all()
        self.on_leases()

    def go_on(self) -> None:
        """Offer again after a long pause; after a short one nothing is to be said."""
        if self.is_resting:
            self._set_resting(is_resting=False)
            self._offers.start_over()

    def _set_resting(self, *, is_resting: bool) -> None:
        self.is_resting = is_resting
        if self.fallback is not None:
            self.fallback.is_resting = is_resting

    def leave(self, reason: str) -> None:
        """Tell the market that this worker is draining."""
        self.is_draining = True
        self._say(messages.Draining(reason=reason[:_MAX_REASON_CHARS]))

    def end(self, reason: str) -> None:
        """Give all leases back."""
        for lease in self._parts.leases.ids():
            self._release(lease, (), reason)
        self._parts.leases.drop_all()

    def tick(self, now: float, *, relay_is_up: bool) -> None:
        """Do what is due: lapses, offers, renewals, reports."""
        parts = self._parts
        suspended = self._suspension.look(now, parts.clock.wall_us())
        if suspended:
            logger.warning("this machine was suspended: offering again")
            parts.leases.drop_all()
        is_kept = self.fallback is not None and self.fallback.keeps_leases(now)
        if is_kept or not relay_is_up:
            parts.leases.prolong(now)
        elif parts.watch.is_away:  # for too long
            parts.leases.doubt(now)
        if parts.leases.lapse(now) or suspended:
            logger.warning("a lease has lapsed")
            self._offers.start_over()
            self.on_leases()
        if self.is_draining or self.is_resting or not relay_is_up:
            return
        if self.standing.may_offer(now) and self._offers.is_due(now):
            self._say(self.offer())
            parts.leases.forget_reports()
        for renewal in () if is_kept else parts.leases.renewals(now):
            self._say(renewal)
        for report in parts.leases.reports():
            self._say(report, about=report.lease)

    def _stands(self, standing: messages.Standing) -> None:
        """Note it; a kicked worker is off the market's list, and offers when it may."""
        self.standing.said(standing, self._parts.clock.monotonic())
        if self.standing.kicked:
            self._offers.start_over()

    def _leased(self, lease: messages.Lease) -> None:
        parts = self._parts
        if self.is_draining or self.is_resting:
            return
        try:
            record = _record_of(lease)
            parts.accounts.priced(lease.price_table, lease.price_signature)
        except (RecordError, LedgerError) as error:
            logger.warning("a lease is not taken: %s", error)
            return
        parts.node.learn(record)
        self._offers.answered()
        if lease.experts:
            self._was_leased = True
            parts.accounts.expect(lease.backbone, lease.manifest_hash)
            parts.leases.take(lease, parts.clock.monotonic())
            parts.last.granted(lease)
            if self.fallback is not None:
                self.fallback.superseded(lease)
        else:
            parts.leases.release(lease.lease, ())
        self.on_leases()

    def _release(
        self, lease: bytes, experts: tuple[ExpertId, ...], reason: str
    ) -> None:
        self._say(
            messages.Release(
                lease=lease, experts=experts, reason=reason[:_MAX_REASON_CHARS]
            ),
            about=lease,
        )

    def _say(self, message: messages.Message, about: bytes = b"") -> None:
        """Tell the market; what is about a lease, whom that was made with."""
        listener = self._parts.market
        if self.fallback is not None and about:
            listener = self.fallback.listener(about, listener)
        try:
            self._parts.node.send(listener, message)
        except LocalError as error:
            logger.info("to the market: %s", error)
            self._offers.unanswered()


def _record_of(lease: messages.Lease) -> PeerRecord:
    record = parse_record(lease.backbone_record)
    if record.peer_id != lease.backbone:
        raise RecordError("the record of a lease is another peer's")
    return record
