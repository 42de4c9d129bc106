"""Working without a market: leases go on, and who has none asks a backbone it knows.

While the market is away (links/service_watch.py) for up to 24 hours:

- what is leased stays leased and is served; prices are those signed last;
- with no lease at all for 10 s, the worker OFFERs to the backbones that its last leases
  name. One that misses the market too gives its last placement when it is asked; the
  worker chooses by weighted rendezvous (rendezvous.py), gathers, and says HELD to it.

Such a lease is between the two alone: its id is a hash of both and the model, and it
ends when the market grants one of the same backbone and model, or after the 24 hours.
What is earned is earned by the same vouchers as ever.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import trio

from ledger.errors import LedgerError
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.contribute.last_leases import LastLeases
from mobile_worker.contribute.leases import LeaseBook, Want
from mobile_worker.contribute.rendezvous import choose_experts
from mobile_worker.errors import RecordError, WorkerError
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.node import Node
from mobile_worker.links.service_watch import ServiceWatch
from mobile_worker.serve.held import HeldModel
from mobile_worker.servings.accounts import Accounts
from mobile_worker.session.records import parse_record
from mobile_worker.shards.desk import BlobDesk
from relay.keys import PeerId, short_id

__all__ = ["MAX_AWAY_S", "Fallback", "FallbackParts", "fallback_lease_id"]

logger = logging.getLogger("p2pmoe.contribute")

MAX_AWAY_S = 24 * 3600.0
_PATIENCE_S = 10.0
_LOOK_S = 1.0
_ASK_AGAIN_S = 30.0
_TRIES = 3
_ANSWER_S = 3.0
_TERM_S = 600
_ID_DOMAIN = b"p2pmoe fallback lease v1\0"


def fallback_lease_id(worker: PeerId, backbone: PeerId, manifest_hash: bytes) -> bytes:
    """Return the id of a lease that no market granted, 8 bytes."""
    key = _ID_DOMAIN + worker + backbone + manifest_hash
    return hashlib.sha256(key).digest()[:8]


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackParts:
    """What it works with.

    model: gives the manifest of what is wanted. on_leases: told of changed leases.
    room_bytes: what experts may take here.
    """

    node: Node
    desk: BlobDesk
    clock: Clock
    watch: ServiceWatch
    leases: LeaseBook
    last: LastLeases
    accounts: Accounts
    offer: Callable[[], messages.Offer]
    model: Callable[[Want], Awaitable[HeldModel]]
    on_leases: Callable[[], None]
    room_bytes: int


class Fallback:
    """See the module. `run` asks and takes, unless the worker rests."""

    def __init__(self, parts: FallbackParts) -> None:
        """Ask nobody yet."""
        self.is_resting = False
        self._parts = parts
        self._backbones: dict[bytes, PeerId] = {}  # by the ids of our own leases

    def keeps_leases(self, now: float) -> bool:
        """Say whether leases go on because the market is away, but not for too long."""
        return 0 < self._parts.watch.away_s(now) < MAX_AWAY_S

    def listener(self, lease: bytes, market: PeerId) -> PeerId:
        """Return who is told of a lease: the market, or whom it was made with."""
        return self._backbones.get(lease, market)

    def superseded(self, lease: messages.Lease) -> None:
        """The market granted a lease: ours of the same backbone and model ends."""
        own = fallback_lease_id(
            self._parts.node.peer_id, lease.backbone, lease.manifest_hash
        )
        if self._backbones.pop(own, None) is not None:
            self._parts.leases.release(own, ())

    async def run(self) -> None:
        """Look for work without the market, until cancelled."""
        while True:
            await trio.sleep(_LOOK_S)
            if not self._is_idle():
                continue
            for lease in reversed(self._parts.last.leases):
                if self._is_idle():
                    await self._ask(lease)
            await trio.sleep(_ASK_AGAIN_S)

    def _is_idle(self) -> bool:
        if self.is_resting:
            return False
        away_s = self._parts.watch.away_s(self._parts.clock.monotonic())
        return _PATIENCE_S <= away_s < MAX_AWAY_S and not len(self._parts.leases)

    async def _ask(self, lease: messages.Lease) -> None:
        """Ask one backbone, and take its work if it answers."""
        parts = self._parts
        try:
            parts.node.learn(parse_record(lease.backbone_record))
            for _ in range(_TRIES):
                parts.node.send(lease.backbone, parts.offer())
                placement = await self._placement(lease)
                if not parts.watch.is_away:
                    return
                if placement is not None:
                    await self._take(lease, placement)
                    return
                await trio.sleep(_LOOK_S)  # our offer may have come second
        except (WorkerError, LedgerError) as error:
            logger.info("backbone %s: %s", short_id(lease.backbone), error)

    async def _placement(self, lease: messages.Lease) -> messages.Placement | None:
        with trio.move_on_after(_ANSWER_S):
            desk = self._parts.desk
            return await desk.placement(lease.backbone, lease.manifest_hash)
        return None

    async def _take(self, lease: messages.Lease, placement: messages.Placement) -> None:
        parts = self._parts
        own = parts.node.peer_id
        name = fallback_lease_id(own, lease.backbone, lease.manifest_hash)
        want = Want(name, lease.backbone, lease.manifest_hash, ExpertId(0, 0))
        model = await parts.model(want)
        parts.accounts.priced(placement.price_table, placement.price_signature)
        chosen = choose_experts(
            own,
            [(e.expert, e.n_bytes) for e in model.manifest.experts],
            _n_holders(own, placement),
            parts.room_bytes,
        )
        if not chosen:
            return
        parts.accounts.expect(lease.backbone, lease.manifest_hash)
        made = replace(lease, lease=name, experts=chosen, expires_in_s=_TERM_S)
        parts.leases.take(made, parts.clock.monotonic())
        self._backbones[name] = lease.backbone
        logger.warning(
            "the market is away: holding %d experts for backbone %s meanwhile",
            len(chosen),
            short_id(lease.backbone),
        )
        parts.on_leases()


def _n_holders(own: PeerId, placement: messages.Placement) -> dict[ExpertId, int]:
    """Return how many workers other than this one hold each expert."""
    counts: dict[ExpertId, int] = {}
    for holder in placement.holders:
        try:
            if parse_record(holder.record).peer_id == own:
                continue
        except RecordError:
            continue
        for expert in holder.experts:
            counts[expert] = counts.get(expert, 0) + 1
    return counts
