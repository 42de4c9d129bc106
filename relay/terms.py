"""On what terms each peer is here: limits, its token's end, drains. No I/O in here.

Limits follow the rate class of the peer's token and may change at any time; the peer is
told by a LIMITS frame, with the seconds that its token still holds. A minute before the
token ends a STATUS says so; then the connection is closed, as it is when token or id is
revoked. A relay that the map drains says STATUS 4 and serves on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from relay.frame_types import GoneReason, Status, StatusCode
from relay.frames import encode_frame
from relay.keys import PeerId
from relay.limits import lane_caps
from relay.live import LiveSettings
from relay.registry import Peer

__all__ = ["Applied", "Terms"]

_WARN_S: Final = 60.0
_DRAINING: Final = "this relay is being emptied: use another one of the network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How many peers new settings concerned."""

    n_limits: int = 0
    n_revoked: int = 0
    is_draining: bool = False


class Terms:
    """The live settings in force at the relay of this id, served at this path."""

    def __init__(self, live: LiveSettings, relay_id: PeerId, path: str) -> None:
        self.live = live
        self._relay_id = relay_id
        self._path = path

    @property
    def is_draining(self) -> bool:
        """Whether the map wants peers to leave."""
        return self.live.is_draining(self._relay_id, self._path)

    def apply(self, live: LiveSettings, peers: Iterable[Peer], now: float) -> Applied:
        """Go on by other settings; each peer whom they concern is told."""
        was_draining, old_version = self.is_draining, self.live.map_version
        self.live = live
        n_limits = n_revoked = 0
        for peer in peers:
            if self._end_revoked(peer):
                n_revoked += 1
                continue
            n_limits += self._renew_limits(peer, now)
            if live.map_version > old_version:
                version = f"relay map {live.map_version}"
                _tell(peer, StatusCode.NEW_MAP, version)
            if self.is_draining and not was_draining:
                _tell(peer, StatusCode.DRAINING, _DRAINING)
        return Applied(
            n_limits=n_limits, n_revoked=n_revoked, is_draining=self.is_draining
        )

    def on_entered(self, peer: Peer, now: float) -> None:
        """Make good what changed since the peer's welcome."""
        if not self._end_revoked(peer):
            self._renew_limits(peer, now)
            if self.is_draining:
                _tell(peer, StatusCode.DRAINING, _DRAINING)

    def on_tick(self, peer: Peer, now: float) -> None:
        """Warn a peer whose token ends soon; end it when it has ended."""
        until = peer.lease_until
        if until is None or now < until - _WARN_S:
            return
        if now >= until:
            peer.end(GoneReason.REFUSED, 1008, "the network token has expired")
        elif not peer.lease_told:
            peer.lease_told = True
            text = f"the network token ends in {peer.lease_s(now)} s"
            _tell(peer, StatusCode.LEASE_ENDING, text)

    def _end_revoked(self, peer: Peer) -> bool:
        fault = self.live.revoked.fault(peer.peer_id, peer.token_hash)
        if fault is None:
            return False
        _tell(peer, StatusCode.LEASE_ENDING, fault.value)
        peer.end(GoneReason.REFUSED, 1008, fault.value)
        return True

    def _renew_limits(self, peer: Peer, now: float) -> bool:
        """Let a peer go on by the limits of its class; tell it if they are others."""
        told = peer.limits
        if self.live.limits(peer.rate_class, told.lease_s) == told:
            return False
        limits = self.live.limits(peer.rate_class, peer.lease_s(now))
        peer.limits = limits
        peer.bytes_bucket.change(limits.bytes_s, limits.burst, now)
        peer.frames_bucket.change(limits.frames_s, limits.frames_s, now)
        peer.outbox.queue.change_caps(lane_caps(limits))
        peer.outbox.notice(encode_frame(limits))
        peer.wake()
        return True


def _tell(peer: Peer, code: StatusCode, text: str) -> None:
    peer.outbox.notice(encode_frame(Status(code=code, text=text)))
    peer.wake()
