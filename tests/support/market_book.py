"""A market's book with named peers: says what they say, and sorts what is sent."""

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import market as wire
from mobile_worker.messages.codec import encode_message
from mobile_worker.shards.manifest import Manifest
from p2pmoe.market.admission import admit_backbone, admit_offer
from p2pmoe.market.book import Book, MarketSettings
from p2pmoe.market.outgoing import Send
from p2pmoe.market.price import PriceSettings
from p2pmoe.market.pricing.model import ModelPrices
from p2pmoe.market.pricing.standby import SignedPaper
from p2pmoe.market.remembered import Remembered
from relay.keys import PeerId
from tests.support.market_peers import SELF_TEST, identity_of, notice_of, offer_of

__all__ = ["BookWorld", "of_type"]

_T = TypeVar("_T")


def of_type(sends: list[Send], kind: type[_T], peer: PeerId | None = None) -> list[_T]:
    """Return the messages of one type, to one peer or to any."""
    return [
        send.message
        for send in sends
        if isinstance(send.message, kind) and peer in (None, send.peer)
    ]


class BookWorld:
    """A book, a clock that is set by hand, and everything sent so far."""

    def __init__(
        self,
        remembered: Remembered | None = None,
        *,
        prices: PriceSettings | None = None,
        models: Mapping[bytes, ModelPrices] | None = None,
    ) -> None:
        self.now = 100.0
        self.remembered = remembered or Remembered()
        self.book = Book(
            MarketSettings(
                network=identity_of("network").peer_id,
                sign=identity_of("market").sign,
                tie_salt=b"salt",
                first_serial=0,
                prices=prices or PriceSettings(),
                models=models or {},
                random=Random(7),
            ),
            self.remembered,
        )
        self.sent: list[Send] = []

    def take(self, sends: list[Send]) -> list[Send]:
        """Note what was sent; everything must be encodable."""
        for send in sends:
            encode_message(send.message)
        self.sent += sends
        return sends

    def peer(self, name: str) -> PeerId:
        """Return the id of a name."""
        return identity_of(name).peer_id

    def notice(self, name: str, manifest: Manifest, sequence: int = 1) -> list[Send]:
        """A backbone lists a model."""
        notice = notice_of(identity_of(name), manifest, sequence=sequence)
        record = admit_backbone(notice, self.peer(name))
        return self.take(self.book.notice(record, notice.manifest, manifest, self.now))

    def demand(self, name: str, manifest_hash: bytes, **changes: object) -> list[Send]:
        """A backbone reports: by default nothing used, nothing at hand, a disk."""
        values: dict[str, object] = {
            "counts": (),
            "at_hand": (),
            "has_disk": True,
            "manifest_hash": manifest_hash,
        }
        demand = wire.Demand(**(values | changes))  # type: ignore[arg-type]
        return self.take(self.book.demand(self.peer(name), demand, self.now))

    def offer(self, name: str, slots: int, **changes: object) -> list[Send]:
        """A worker offers room for so many shards."""
        offer = offer_of(identity_of(name), slots, **changes)
        admitted = admit_offer(offer, self.peer(name), now_us=0, self_test=SELF_TEST)
        return self.take(self.book.offer(admitted, self.now))

    def held(self, name: str, lease: wire.Lease) -> list[Send]:
        """A worker holds all of a lease."""
        held = wire.Held(lease=lease.lease, experts=lease.experts)
        return self.take(self.book.held(self.peer(name), held, self.now))

    def after(self, seconds: float) -> list[Send]:
        """Let time pass, tick by tick as due."""
        end = self.now + seconds
        sends: list[Send] = []
        while (due := self.book.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            sends += self.take(self.book.tick(self.now))
        self.now = end
        return sends

    @property
    def wall_us(self) -> int:
        """The wall clock: 1970 began when `now` was 0."""
        return round(self.now * 1e6)

    def turn_prices(self, seconds: float) -> list[SignedPaper] | None:
        """Let time pass, then look at prices; tell what is new."""
        self.after(seconds)
        papers = self.book.prices.turn(self.now, self.wall_us)
        self.take(self.book.adopt_prices(self.now))
        return papers

    def lease(self, name: str) -> wire.Lease:
        """Return the latest lease sent to a worker."""
        return of_type(self.sent, wire.Lease, self.peer(name))[-1]

    def experts(self, name: str) -> set[ExpertId]:
        """Return what the worker is to hold by its latest lease."""
        return set(self.lease(name).experts)

    def placement(self, name: str) -> dict[bytes, set[ExpertId]]:
        """Return the latest placement sent to a backbone: experts by record."""
        latest = of_type(self.sent, wire.Placement, self.peer(name))[-1]
        return {holder.record: set(holder.experts) for holder in latest.holders}
