"""A relay's switch without sockets: peers whose writers are the test.

`SwitchWorld.told` takes what a peer's writer would write and parses it from the wire's
bytes, so that a test sees what a peer would see. Several connections of one id may be
open at once, as at a real relay.
"""

from relay.forwarding import Switch
from relay.frame_types import Frame, GoneReason
from relay.frames import parse_frame
from relay.handshake import Admitted
from relay.keys import PeerId
from relay.limits import KeepAlive, limits_of
from relay.live import LiveSettings
from relay.queues import QueueBudget
from relay.registry import Peer
from relay.terms import Terms
from relay.tokens import RateClass, Role

__all__ = ["SwitchWorld", "peer_id_of", "split_wire"]


def peer_id_of(number: int) -> PeerId:
    """Return an id that nobody holds the key of: the switch does not ask."""
    return PeerId(number.to_bytes(32, "big"))


def split_wire(wire: bytes) -> list[bytes]:
    """Return the messages of unmasked WebSocket frames."""
    messages, at = [], 0
    while at < len(wire):
        size, at = wire[at + 1], at + 2
        if size == 126:
            size, at = int.from_bytes(wire[at : at + 2], "big"), at + 2
        elif size == 127:
            size, at = int.from_bytes(wire[at : at + 8], "big"), at + 8
        messages.append(wire[at : at + size])
        at += size
    return messages


class SwitchWorld:
    """A switch; `ended` lists connections it wanted closed, with reason and words."""

    def __init__(self, *, max_queued_bytes: int = 10**8) -> None:
        terms = Terms(LiveSettings(), peer_id_of(999), "/relay")
        self.switch = Switch(QueueBudget(max_bytes=max_queued_bytes), terms)
        self.ended: list[tuple[Peer, GoneReason, str]] = []

    def enter(
        self,
        peer_id: PeerId,
        now: float = 0.0,
        *,
        rate_class: RateClass = RateClass.LAPTOP,
        is_market: bool = False,
        prefix: str = "",
    ) -> Peer:
        """Open a connection of this id."""
        admitted = Admitted(
            peer_id=peer_id,
            role=Role.WORKER,
            rate_class=rate_class,
            caps=0,
            client_nonce=bytes(16),
            skew_us=0,
            is_market=is_market,
        )
        peer = self.switch.admit(admitted, limits_of(rate_class), KeepAlive(), now)
        peer.prefix = prefix
        peer.end = lambda why, _code, text: self.ended.append((peer, why, text))
        self.switch.enter(peer, now)
        return peer

    def leave(self, peer: Peer, now: float = 0.0) -> None:
        """Close a connection."""
        self.switch.leave(peer, GoneReason.DISCONNECTED, now)

    def written(
        self, peer: Peer, now: float = 0.0, *, max_bytes: int = 10**9
    ) -> list[bytes]:
        """Take what the peer's writer would write; notices even if `max_bytes` is 0."""
        batch = peer.outbox.take(max_bytes, now)
        if batch.expired:
            self.switch.report(batch.expired)
        self.switch.counters.delivered += batch.n_frames
        return split_wire(b"".join(batch.parts))

    def told(self, peer: Peer, now: float = 0.0) -> list[Frame | None]:
        """Take all of it, as frames."""
        return [parse_frame(message) for message in self.written(peer, now)]
