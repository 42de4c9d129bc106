"""All handshakes between this process and one peer: which are under way, which count.

Decide, then act: nothing here sends; what is to be sent is returned or taken.

- At most one attempt of our own is open. Its first packet is repeated, at 1 s and then
  1.5 times later each time; after two repeats in IK (our record of the peer may be
  stale) it goes on as XX, after five it has failed.
- If both sides begin at once, the one with the smaller id goes on and does not answer.
- At most two attempts of the peer are open; they are answered at a bounded rate.
- A channel that the peer began is kept aside until a packet of it has opened.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mobile_worker.errors import HandshakeError
from mobile_worker.session.channel import Channel
from mobile_worker.session.handshake import Attempt, OwnSide, Result
from mobile_worker.session.noise import Pattern
from mobile_worker.session.packets import HandshakePacket, PacketKind
from mobile_worker.session.records import PeerRecord
from relay.keys import PeerId

__all__ = ["Handshakes"]

_FIRST_REPEAT_S = 1.0
_REPEAT_FACTOR = 1.5
_MAX_SENDS = 6
_IK_SENDS = 3
_MAX_OPEN = 2
_ANSWERS_BURST = 20.0
_ANSWERS_S = 2.0
_CONFIRM_S = 1.0
_FIRST_OF = {PacketKind.IK_1: Pattern.IK, PacketKind.XX_1: Pattern.XX}


@dataclass(slots=True)
class _Offer:
    """Our own attempt, and when its first packet is due again."""

    attempt: Attempt
    packet: bytes
    due: float
    pause_s: float = _FIRST_REPEAT_S
    n_sent: int = 1
    broken: bool = False


class Handshakes:
    """Open attempts with one peer, and its channels that are not confirmed yet."""

    def __init__(
        self, own: OwnSide, peer: PeerId, record: Callable[[], PeerRecord | None]
    ) -> None:
        self._own = own
        self._peer = peer
        self._record = record
        self._offer: _Offer | None = None
        self._answers: dict[int, Attempt] = {}
        self._unconfirmed: dict[int, Result] = {}
        self._hold_until = float("-inf")
        self._budget = _ANSWERS_BURST
        self._budget_at = 0.0

    @property
    def offering(self) -> bool:
        """Whether an attempt of our own is under way."""
        return self._offer is not None

    @property
    def n_sent(self) -> int:
        """How often the first packet of our own attempt was sent; 0 without one."""
        return 0 if self._offer is None else self._offer.n_sent

    def may_begin(self, now: float) -> bool:
        """Tell whether to begin one of our own, if new keys are needed."""
        return self._offer is None and now >= self._hold_until

    def begin(self, now: float) -> bytes:
        """Begin an attempt of our own and return its first packet."""
        pattern = Pattern.XX if self._record() is None else Pattern.IK
        offer = self._make_offer(pattern, now)
        self._offer = offer
        return offer.packet

    def withdraw(self) -> None:
        """Give our own attempt up."""
        self._offer = None

    def take(
        self, packet: HandshakePacket, now: float
    ) -> tuple[bytes | None, Result | None]:
        """Take a handshake packet; return the answer and keys to use at once.

        Raises:
            HandshakeError: it proves nothing, or is not due.
        """
        if packet.kind in _FIRST_OF:
            return self._answer(packet, now), None
        if packet.kind is PacketKind.XX_3:
            attempt = self._answers.pop(packet.receiver, None)
            if attempt is None:
                raise HandshakeError("no such handshake", peer=self._peer)
            _, result = attempt.take(packet, now)
            self._set_aside(result, now)
            return None, None
        return self._finish(packet, now)

    def confirm(self, channel: Channel) -> PeerRecord | None:
        """Note that a packet of a channel of the peer has opened; return its record."""
        result = self._unconfirmed.pop(channel.local, None)
        if result is None:
            return None
        self._unconfirmed.clear()
        self._offer = None
        return result.record

    def unconfirmed(self, index: int) -> Channel | None:
        """Return the channel with this index that waits for its first packet."""
        result = self._unconfirmed.get(index)
        return None if result is None else result.channel

    def repeat(self, now: float) -> tuple[bytes | None, bool]:
        """Return the packet that is due again, and whether we have given up."""
        offer = self._offer
        if offer is None or now < offer.due:
            return None, False
        if offer.n_sent >= _MAX_SENDS:
            self._offer = None
            return None, True
        pattern = offer.attempt.pattern
        if offer.broken or (pattern is Pattern.IK and offer.n_sent >= _IK_SENDS):
            fresh = self._make_offer(Pattern.XX, now)
            offer.attempt, offer.packet = fresh.attempt, fresh.packet
            offer.broken = False
        offer.n_sent += 1
        offer.pause_s *= _REPEAT_FACTOR
        offer.due = now + offer.pause_s
        return offer.packet, False

    def _make_offer(self, pattern: Pattern, now: float) -> _Offer:
        record = self._record()
        attempt = Attempt(
            self._own,
            self._peer,
            pattern,
            remote_static=record.static_key
            if record and pattern is Pattern.IK
            else None,
            initiator=True,
        )
        return _Offer(attempt, attempt.begin(), now + _FIRST_REPEAT_S)

    def _finish(
        self, packet: HandshakePacket, now: float
    ) -> tuple[bytes | None, Result | None]:
        offer = self._offer
        if offer is None or offer.broken or packet.receiver != offer.attempt.local:
            raise HandshakeError("an answer that nobody waits for", peer=self._peer)
        try:
            answer, result = offer.attempt.take(packet, now)
        except HandshakeError:
            offer.broken = True
            raise
        self._offer = None
        self._unconfirmed.clear()
        return answer, result

    def _answer(self, packet: HandshakePacket, now: float) -> bytes | None:
        if self._offer is not None and self._own.identity.peer_id < self._peer:
            return None
        if not self._spend(now):
            raise HandshakeError("too many handshakes", peer=self._peer)
        pattern = _FIRST_OF[packet.kind]
        attempt = Attempt(self._own, self._peer, pattern, initiator=False)
        answer, result = attempt.take(packet, now)
        if result is not None:
            self._set_aside(result, now)
        else:
            while len(self._answers) >= _MAX_OPEN:
                del self._answers[next(iter(self._answers))]
            self._answers[attempt.local] = attempt
        self._hold(now)
        return answer

    def _set_aside(self, result: Result | None, now: float) -> None:
        if result is None:
            raise HandshakeError("the handshake did not finish", peer=self._peer)
        while len(self._unconfirmed) >= _MAX_OPEN:
            del self._unconfirmed[next(iter(self._unconfirmed))]
        self._unconfirmed[result.channel.local] = result
        self._hold(now)

    def _hold(self, now: float) -> None:
        """Wait for the peer's first packet before we begin or repeat ourselves."""
        self._hold_until = now + _CONFIRM_S
        if self._offer is not None:
            self._offer.due = max(self._offer.due, self._hold_until)

    def _spend(self, now: float) -> bool:
        earned = (now - self._budget_at) * _ANSWERS_S
        self._budget = min(_ANSWERS_BURST, self._budget + max(0.0, earned))
        self._budget_at = now
        if self._budget < 1.0:
            return False
        self._budget -= 1.0
        return True
