"""A backbone whose market is away: it goes on with the placement that was said last.

It is kept over a restart (last_placement.py). While the market is away a worker may
OFFER here and ask for the placement (GET of no bytes of the manifest); it chooses for
itself, and counts as a holder from its HELD on. The market's next placement replaces
all of it.

Who offers is checked as a market checks it: its own record, a worker's role, the same
arithmetic; at most 256, and nobody while the market is there. What such a worker
answers is checked as every newcomer's. No I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mobile_worker.device_class import DeviceClass
from mobile_worker.errors import RecordError
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.service_watch import ServiceWatch
from mobile_worker.messages.market import Held, Holder, Offer, Placement
from mobile_worker.session.records import PeerRecord, parse_record
from relay.keys import PeerId
from relay.tokens import Role

__all__ = ["WithoutMarket"]

_MAX_JOINERS = 256


@dataclass(frozen=True, slots=True)
class _Joiner:
    record: PeerRecord
    device_class: int
    experts: tuple[ExpertId, ...] = ()


class WithoutMarket:
    """See the module."""

    def __init__(
        self,
        self_test: bytes,
        clock: Callable[[], float],
        last: Placement | None = None,
    ) -> None:
        """Begin with what was said last; the market is believed to be there."""
        self.last = last
        self.watch = ServiceWatch()
        self._self_test = self_test
        self._clock = clock
        self._joiners: dict[PeerId, _Joiner] = {}

    def missed(self) -> None:
        """The market was lost, or something did not reach it."""
        self.watch.missed(self._clock())

    def placed(self, placement: Placement) -> None:
        """The market said who holds what: who joined meanwhile is in there, or not."""
        self.last = placement
        self._joiners.clear()

    def told(self, peer: PeerId) -> Placement | None:
        """Return what a worker that has offered here is told when it asks."""
        is_told = self.watch.is_away and peer in self._joiners
        return self.picture() if is_told else None

    def offered(self, peer: PeerId, offer: Offer) -> None:
        """Take note of a worker that offers, if it is to be taken in."""
        if not self.watch.is_away or self.last is None:
            return
        if peer not in self._joiners and len(self._joiners) >= _MAX_JOINERS:
            return
        try:
            record = parse_record(offer.record)
            device_class = int(DeviceClass(offer.device_class))
        except (RecordError, ValueError):
            return
        is_worker = record.role in (Role.WORKER, Role.HUB)
        is_fit = record.self_test == self._self_test
        if record.peer_id != peer or not is_worker or not is_fit:
            return
        known = self._joiners.get(peer)
        experts = () if known is None else known.experts
        self._joiners[peer] = _Joiner(record, device_class, experts)

    def held(self, peer: PeerId, held: Held) -> Placement | None:
        """Take what a joiner holds; return the picture if it changed."""
        joiner = self._joiners.get(peer)
        if joiner is None or joiner.experts == held.experts:
            return None
        self._joiners[peer] = replace(joiner, experts=held.experts)
        return self.picture()

    def picture(self) -> Placement | None:
        """Return the last placement with those who joined since."""
        if self.last is None or not self._joiners:
            return self.last
        joined = {joiner.record.encoded for joiner in self._joiners.values()}
        stayed = [h for h in self.last.holders if h.record not in joined]
        holders = [
            Holder(
                record=joiner.record.encoded,
                device_class=joiner.device_class,
                experts=joiner.experts,
            )
            for joiner in self._joiners.values()
            if joiner.experts
        ]
        return replace(self.last, holders=(*stayed, *holders))
