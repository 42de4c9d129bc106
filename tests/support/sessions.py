"""Two sessions joined by a wire that tests can look at, cut and reorder."""

import os
from dataclasses import dataclass, field

from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.identity import Identity
from mobile_worker.session.outcomes import Delivered, Outcome
from mobile_worker.session.records import PeerRecord, sign_record
from mobile_worker.session.session import Session
from relay.keys import PeerId
from relay.tokens import Role

__all__ = ["NETWORK", "Side", "exchange", "join", "make_record", "make_side"]

NETWORK = bytes(range(32))


def make_record(identity: Identity, *, sequence: int = 1, **changes) -> PeerRecord:
    values = {
        "peer_id": identity.peer_id,
        "static_key": identity.static_key,
        "role": Role.WORKER,
        "relays": (),
        "direct_addresses": (),
        "capabilities": 0,
        "self_test": bytes(32),
        "not_after_us": 0,
        "sequence": sequence,
    }
    return sign_record(PeerRecord(**(values | changes)), identity.sign)


@dataclass
class Side:
    """One peer: its session with the other and what came out of it."""

    identity: Identity
    own: OwnSide
    record: PeerRecord
    session: Session
    outcomes: list[Outcome] = field(default_factory=list)

    def receive(self, packet: bytes, now: float = 0.0) -> None:
        self.outcomes += self.session.receive(packet, now)

    def packets(self, now: float = 0.0) -> list[bytes]:
        """All that wants to go out: replies first."""
        found = self.session.replies[:]
        self.session.replies.clear()
        while (packet := self.session.next_packet(now)) is not None:
            found.append(packet.payload)
        return found

    def send(
        self, message: bytes, message_class: MessageClass = MessageClass.INTERACTIVE
    ) -> None:
        self.session.add(message, message_class)

    @property
    def delivered(self) -> list[bytes]:
        return [o.message for o in self.outcomes if isinstance(o, Delivered)]

    def consume_all(self) -> None:
        for outcome in self.outcomes:
            if isinstance(outcome, Delivered):
                self.session.consumed(outcome.message_class, len(outcome.message))
        self.outcomes.clear()


def make_side(
    peer: PeerId,
    identity: Identity,
    *,
    knows: PeerRecord | None = None,
    network: bytes = NETWORK,
) -> Side:
    record = make_record(identity)
    own = OwnSide(
        identity=identity,
        network=network,
        instance=os.urandom(8),
        record=lambda: record.encoded,
        random_bytes=os.urandom,
    )
    return Side(identity, own, record, Session(own, peer, record=knows))


def join(*, knows: bool = True) -> tuple[Side, Side]:
    """Two sides that have not spoken yet; `knows`: each has the other's record."""
    one, other = Identity.generate(), Identity.generate()
    a = make_side(other.peer_id, one, knows=make_record(other) if knows else None)
    b = make_side(one.peer_id, other, knows=make_record(one) if knows else None)
    return a, b


def exchange(a: Side, b: Side, now: float = 0.0, *, rounds: int = 50) -> None:
    """Carry packets both ways until both are silent."""
    for _ in range(rounds):
        from_a, from_b = a.packets(now), b.packets(now)
        if not from_a and not from_b:
            return
        for packet in from_a:
            b.receive(packet, now)
        for packet in from_b:
            a.receive(packet, now)
    raise AssertionError("the two sides do not come to rest")
