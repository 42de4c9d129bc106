"""The two keys of one finished handshake: sealing, opening, counting.

Each packet carries an explicit 64-bit counter, which is the AEAD nonce; a counter is
never used twice with a key. Packets may be lost, late or doubled on the way.
"""

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mobile_worker.errors import SealError
from mobile_worker.session.flow import Flow
from mobile_worker.session.packets import SEALED_HEAD, PacketKind
from mobile_worker.session.replay import ReplayWindow

__all__ = ["MAX_AGE_S", "MAX_PACKETS", "Channel"]

MAX_PACKETS = 1 << 20
MAX_AGE_S = 30 * 60.0
_NONCE_HEAD = bytes(4)


@dataclass(slots=True, kw_only=True, eq=False)
class Channel:
    """Keys, counters and byte credit of one handshake.

    local, remote: the u32 indices by which either side names it. initiator: whether
    this side began the handshake. session_id: the handshake hash.
    """

    local: int
    remote: int
    initiator: bool
    session_id: bytes
    instance: bytes  # of the peer's process
    opened_at: float
    sending: AESGCM
    receiving: AESGCM
    flow: Flow = field(default_factory=Flow)
    n_sent: int = 0
    window: ReplayWindow = field(default_factory=ReplayWindow)

    def seal(self, frame: bytes) -> bytes:
        """Return the packet of a frame."""
        counter = self.n_sent
        self.n_sent = counter + 1
        head = SEALED_HEAD.pack(PacketKind.SEALED, self.remote, counter)
        nonce = _NONCE_HEAD + head[5:]
        return head + self.sending.encrypt(nonce, frame, head)

    def open(self, packet: bytes) -> bytes:
        """Return the frame of a packet, once.

        Raises:
            SealError: seen before, too old, or not made with our keys.
        """
        head = packet[: SEALED_HEAD.size]
        counter = int.from_bytes(head[5:], "big")
        if not self.window.check(counter):
            raise SealError(f"packet {counter} is repeated or too old")
        try:
            nonce = _NONCE_HEAD + head[5:]
            view = memoryview(packet)[SEALED_HEAD.size :]
            frame = self.receiving.decrypt(nonce, view, head)
        except (InvalidTag, ValueError) as error:
            raise SealError(f"packet {counter} does not open") from error
        self.window.commit(counter)
        return frame

    def is_worn(self, now: float) -> bool:
        """Tell whether it is time for new keys.

        The side that did not begin waits a little longer, so that both do not begin
        at the same moment.
        """
        slack = 1.0 if self.initiator else 1.1
        return (
            self.n_sent >= MAX_PACKETS * slack
            or now - self.opened_at >= MAX_AGE_S * slack
        )
