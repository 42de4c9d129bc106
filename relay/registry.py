"""Who is at the relay: peers by id, duplicates, who watches whom. No I/O in here.

The newest connection of an id is active; the one before it is parked for 10 s and comes
back if the newest leaves within that time; a third ends the parked one. Contacts are
the peers with which frames were exchanged within the last minute.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from relay.defaults import PARKED_S, QUEUE_BYTES, RECENT_CONTACT_S
from relay.frame_types import GoneReason, Limits
from relay.handshake import Admitted
from relay.keys import PeerId
from relay.limits import Bucket, KeepAlive
from relay.outbox import Outbox

__all__ = ["Entered", "Left", "Peer", "Registry"]

_MAX_CONTACTS: Final = 4096
_MAX_WATCHED: Final = 4096  # times the scale of the rate class
_MAX_WATCHED_BY_ALL: Final = 500_000  # some 380 bytes each


class Peer:
    """One authenticated connection, as the rest of the relay sees it.

    `wake` tells its writer that there is something to write; `end` ends it soon, with a
    WebSocket close code and a reason in words.
    """

    __slots__ = (
        "bytes_bucket",
        "contacts",
        "end",
        "frames_bucket",
        "is_market",
        "keep_alive",
        "last_read",
        "lease_told",
        "lease_until",
        "limits",
        "moved_at",
        "n_takes_seen",
        "outbox",
        "parked_until",
        "peer_id",
        "pinged_at",
        "prefix",
        "rate_class",
        "role",
        "token_hash",
        "told_at",
        "wake",
        "watched",
    )

    def __init__(
        self,
        admitted: Admitted,
        limits: Limits,
        keep_alive: KeepAlive,
        outbox: Outbox,
        now: float,
    ) -> None:
        self.peer_id = admitted.peer_id
        self.role = admitted.role
        self.rate_class = admitted.rate_class
        self.is_market = admitted.is_market
        self.prefix = ""  # of the network it comes from, where that can be told
        self.token_hash = admitted.token_hash
        self.lease_until = now + admitted.lease_s if admitted.lease_s else None
        self.lease_told = False
        self.keep_alive = keep_alive
        self.limits = limits
        self.outbox = outbox
        self.bytes_bucket = Bucket(limits.bytes_s, limits.burst, now)
        self.frames_bucket = Bucket(limits.frames_s, limits.frames_s, now)
        self.contacts: dict[PeerId, float] = {}
        self.watched: dict[PeerId, None] = {}  # the newest last
        self.parked_until: float | None = None
        self.last_read = now
        self.pinged_at: float | None = None
        self.moved_at = now  # when its writer was last seen to get on
        self.n_takes_seen = 0
        self.told_at = float("-inf")
        self.wake: Callable[[], None] = _nothing
        self.end: Callable[[GoneReason, int, str], None] = _nothing

    def lease_s(self, now: float) -> int:
        """Return the whole seconds until its token ends, at least one; 0: no end."""
        if self.lease_until is None:
            return 0
        return max(1, math.ceil(self.lease_until - now))

    def recent_contacts(self, now: float) -> Iterable[PeerId]:
        """Return the peers with which frames were exchanged in the last minute."""
        since = now - RECENT_CONTACT_S
        return [peer for peer, at in self.contacts.items() if at >= since]

    def forget_old_contacts(self, now: float) -> None:
        """Bound the memory of contacts; the newest 4,096 stay."""
        if len(self.contacts) > 64:
            self.contacts = {
                peer: self.contacts[peer] for peer in self.recent_contacts(now)
            }
        if len(self.contacts) > _MAX_CONTACTS:
            newest = sorted(self.contacts.items(), key=lambda item: item[1])
            self.contacts = dict(newest[-_MAX_CONTACTS:])


def _nothing(*_arguments: object) -> None:
    """Stand in until the connection's tasks run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """`older` is now parked; `ended` was parked before and must be closed."""

    older: Peer | None
    ended: Peer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """`was_active`: frames could reach it; `promoted` takes its place, if any."""

    was_active: bool
    promoted: Peer | None


class Registry:
    """All peers of one relay process."""

    def __init__(self) -> None:
        self.active: dict[PeerId, Peer] = {}
        self.parked: dict[PeerId, Peer] = {}
        self._watchers: dict[PeerId, set[Peer]] = {}
        self._n_watched = 0

    def enter(self, peer: Peer, now: float) -> Entered:
        """Make this connection the active one of its id."""
        older = self.active.get(peer.peer_id)
        ended = None
        if older is not None:
            ended = self.parked.get(peer.peer_id)
            self.parked[peer.peer_id] = older
            older.parked_until = now + PARKED_S
        self.active[peer.peer_id] = peer
        return Entered(older=older, ended=ended)

    def leave(self, peer: Peer) -> Left:
        """Remove a connection; the parked one of its id takes over."""
        self.forget_watches(peer)
        if self.parked.get(peer.peer_id) is peer:
            del self.parked[peer.peer_id]
        if self.active.get(peer.peer_id) is not peer:
            return Left(was_active=False, promoted=None)
        promoted = self.parked.pop(peer.peer_id, None)
        if promoted is None:
            del self.active[peer.peer_id]
        else:
            promoted.parked_until = None
            self.active[peer.peer_id] = promoted
        return Left(was_active=True, promoted=promoted)

    def end_parked(self, peer: Peer) -> None:
        """Take a parked connection out of the row: it is told to go."""
        if self.parked.get(peer.peer_id) is peer:
            del self.parked[peer.peer_id]

    def watch(self, peer: Peer, ids: Iterable[PeerId]) -> None:
        """Let a peer watch others.

        Of more than 4,096 (65,536 for a hub) those named longest ago are forgotten: a
        market must not lose its link because many peers came to it. Of more than
        500,000 in the whole relay the peer with most loses half of its own, the oldest.
        """
        most = _MAX_WATCHED * max(1, peer.limits.queue_bytes // QUEUE_BYTES)
        for watched in ids:
            self._n_watched += watched not in peer.watched
            peer.watched.pop(watched, None)
            peer.watched[watched] = None
            self._watchers.setdefault(watched, set()).add(peer)
        while len(peer.watched) > most:
            self._forget_watch(peer, next(iter(peer.watched)))
        while self._n_watched > _MAX_WATCHED_BY_ALL and self._forget_half(peer):
            pass

    def _forget_half(self, newest: Peer) -> bool:
        """Let the peer with most forget; false: only those that end have any."""
        peers = (newest, *self.active.values(), *self.parked.values())
        fattest = max(peers, key=lambda each: len(each.watched))
        n_forgotten = (len(fattest.watched) + 1) // 2
        for watched in tuple(islice(fattest.watched, n_forgotten)):
            self._forget_watch(fattest, watched)
        return n_forgotten > 0

    def forget_watches(self, peer: Peer) -> None:
        """Let a peer watch nobody any longer."""
        for watched in tuple(peer.watched):
            self._forget_watch(peer, watched)

    def _forget_watch(self, peer: Peer, watched: PeerId) -> None:
        del peer.watched[watched]
        self._n_watched -= 1
        watchers = self._watchers[watched]
        watchers.discard(peer)
        if not watchers:
            del self._watchers[watched]

    def watchers(self, peer_id: PeerId) -> Iterable[Peer]:
        """Return the active peers that watch this id."""
        return [
            peer
            for peer in self._watchers.get(peer_id, ())
            if self.active.get(peer.peer_id) is peer
        ]

    def concerned(self, peer: Peer, now: float) -> set[Peer]:
        """Return who must hear that this peer left: watchers and recent contacts."""
        contacts = (self.active.get(other) for other in peer.recent_contacts(now))
        concerned = {other for other in contacts if other is not None}
        concerned.update(self.watchers(peer.peer_id))
        concerned.discard(peer)
        return concerned
