"""One handshake between two peers: Noise with signed peer records as its payload.

The prologue binds both ids and the network, not the path: a session survives a change
of path. A side goes on only if the record that it received is signed by the peer that
the prologue names and holds the very X25519 key that Noise authenticated. No clock is
compared.

The indices and the instance in a packet's head are not authenticated. Whoever changes
them on the way gains what dropping the packet would give.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mobile_worker.errors import HandshakeError, RecordError
from mobile_worker.session.channel import Channel
from mobile_worker.session.identity import Identity
from mobile_worker.session.noise import NoiseHandshake, Pattern
from mobile_worker.session.packets import HandshakePacket, PacketKind
from mobile_worker.session.pieces import Shelf, Waiting
from mobile_worker.session.records import PeerRecord, parse_record
from relay.keys import PeerId

__all__ = ["Attempt", "OwnSide", "Result", "prologue"]

_DOMAIN = b"p2pmoe e2e v1"
_KINDS = {
    Pattern.IK: (PacketKind.IK_1, PacketKind.IK_2),
    Pattern.XX: (PacketKind.XX_1, PacketKind.XX_2, PacketKind.XX_3),
}


def prologue(network: bytes, initiator: PeerId, responder: PeerId) -> bytes:
    """Return what both sides hash first; network and ids are 32 bytes each."""
    return b"".join((_DOMAIN, network, initiator, responder))


@dataclass(slots=True, kw_only=True)
class OwnSide:
    """What all sessions of this process share.

    instance: 8 bytes drawn at start. record: gives our signed record as it is now.
    shelf, waiting: what all peers together may make us hold.
    """

    identity: Identity
    network: bytes
    instance: bytes
    record: Callable[[], bytes]
    random_bytes: Callable[[int], bytes]
    shelf: Shelf = field(default_factory=Shelf)
    waiting: Waiting = field(default_factory=Waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished handshake: the keys, and what the peer signed about itself."""

    channel: Channel
    record: PeerRecord


class Attempt:
    """One side of one handshake in progress."""

    def __init__(
        self,
        own: OwnSide,
        peer: PeerId,
        pattern: Pattern,
        *,
        remote_static: bytes | None = None,
        initiator: bool,
    ) -> None:
        self.pattern = pattern
        self.local = int.from_bytes(own.random_bytes(4), "big")
        self._own = own
        self._peer = peer
        self._initiator = initiator
        self._remote = 0
        self._record: PeerRecord | None = None
        ids = (own.identity.peer_id, peer)
        first, second = ids if initiator else ids[::-1]
        ephemeral = X25519PrivateKey.from_private_bytes(own.random_bytes(32))
        self._noise = NoiseHandshake(
            pattern,
            initiator=initiator,
            prologue=prologue(own.network, first, second),
            keys=(own.identity.static, ephemeral),
            remote_static=remote_static,
        )
        self._n_done = 0

    def begin(self) -> bytes:
        """Return the first packet, as its initiator."""
        # In XX nothing is encrypted yet, so nothing is said.
        return self._write(self._own.record() if self.pattern is Pattern.IK else b"")

    def take(
        self, packet: HandshakePacket, now: float
    ) -> tuple[bytes | None, Result | None]:
        """Take the next packet; return what to answer and the result if finished.

        Raises:
            HandshakeError: it is not the one that is due, does not open, or proves
                another peer. The attempt cannot be continued then.
        """
        due = _KINDS[self.pattern][self._n_done : self._n_done + 1]
        if due != (packet.kind,) or (self._n_done and packet.receiver != self.local):
            raise HandshakeError(f"{packet.kind.name} is not due", peer=self._peer)
        payload = self._noise.read(packet.noise)
        self._n_done += 1
        self._remote = packet.sender
        if packet.kind is PacketKind.XX_1:
            if payload:
                raise HandshakeError("a payload in the clear", peer=self._peer)
        else:
            self._record = self._check(payload)
        answer = None if self._noise.finished else self._write(self._own.record())
        if not self._noise.finished or self._record is None:
            return answer, None
        channel = self._channel(packet.instance, now)
        return answer, Result(channel=channel, record=self._record)

    def _write(self, payload: bytes) -> bytes:
        kind = _KINDS[self.pattern][self._n_done]
        self._n_done += 1
        return HandshakePacket(
            kind=kind,
            sender=self.local,
            receiver=self._remote,
            instance=self._own.instance,
            noise=self._noise.write(payload),
        ).encode()

    def _check(self, payload: bytes) -> PeerRecord:
        try:
            record = parse_record(payload)
        except RecordError as error:
            raise HandshakeError(f"no record: {error}", peer=self._peer) from error
        if record.peer_id != self._peer:
            who = record.peer_id[:4].hex()
            raise HandshakeError(f"the record is of {who}", peer=self._peer)
        if record.static_key != self._noise.remote_static:
            raise HandshakeError("the record names another key", peer=self._peer)
        return record

    def _channel(self, instance: bytes, now: float) -> Channel:
        sending, receiving = self._noise.split()
        return Channel(
            local=self.local,
            remote=self._remote,
            initiator=self._initiator,
            session_id=self._noise.handshake_hash,
            instance=instance,
            opened_at=now,
            sending=AESGCM(sending),
            receiving=AESGCM(receiving),
        )
