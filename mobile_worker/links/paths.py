"""What a node keeps of one peer, and by which of several paths its packets go.

Paths are the direct links and the relays. A direct link counts once the peer answered a
sealed probe by it (`proven`), and until a probe is lost (`doubted`); a relay counts
while it is up and does not say that the peer is gone. All of them stay open (make
before break): the packet after the loss of one goes by another, at once.

Between paths that count, the one in use is kept, until another is 20 % quicker there
and back for 5 s, by what probes measured. A direct link that is proven just now takes
over from a relay that is not known to be quicker.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.events import PathKind
from mobile_worker.links.link import Link
from mobile_worker.links.meter import Meter
from mobile_worker.session.packets import carries_message
from mobile_worker.session.session import Session

if TYPE_CHECKING:
    from mobile_worker.links.relay import RelayLink

__all__ = [
    "BETTER_FOR_S",
    "PeerState",
    "RelayPath",
    "Way",
    "Windows",
    "choose_link",
    "is_absent",
    "is_relay",
    "prefer_proven",
    "reconsider",
    "windows_of",
]

BETTER_FOR_S: Final = 5.0
_BETTER: Final = 0.8  # of the round trip in use, at most
_MIN_RELAY_WINDOW: Final = 64 << 10
_DIRECT_WINDOW: Final = 8 << 20
_MAX_DIRECT_WINDOW: Final = 32 << 20
_UNKNOWN: Final = float("inf")
_NEVER: Final = float("-inf")
Way: TypeAlias = "DirectLink | RelayLink"


@dataclass(slots=True, eq=False)
class RelayPath:
    """One peer by way of one relay.

    present: what this relay said last; None if it said nothing. held_until: our
    connection to it is new, so the peer may be on its way back too: what is for it
    waits until it is seen there, or until then.
    """

    present: bool | None = None
    held_until: float | None = None
    meter: Meter = field(default_factory=Meter)


@dataclass(slots=True, kw_only=True, eq=False)
class PeerState:
    """One peer: its session, its direct links, what is known of it at each relay.

    lost: our owner was told, and nothing authentic came since. chosen: the path in use.
    heard: what the peer's messages come by. kind: what the session's windows fit. used:
    something of ours went out since the last look, at used_at. measured: its paths are
    probed while it is in use.
    """

    session: Session
    links: list[DirectLink] = field(default_factory=list)
    relays: "dict[RelayLink, RelayPath]" = field(default_factory=dict)
    chosen: "Way | None" = None
    kind: PathKind | None = None
    heard: PathKind | None = None
    rival: "Way | None" = None
    rival_since: float = 0.0
    used: bool = False
    used_at: float = float("-inf")
    measured: bool = False
    lost: bool = False
    dialling: bool = False
    knocks: float = 0.0
    knocked_at: float = float("-inf")

    def at(self, relay: "RelayLink") -> RelayPath:
        """Return what is known of the peer at a relay, from now on if not before."""
        path = self.relays.get(relay)
        if path is None:
            path = self.relays[relay] = RelayPath()
        return path

    def hold(self, relay: "RelayLink", until: float) -> None:
        """Note that our connection to this relay is new: nothing is known of it yet."""
        path = self.at(relay)
        path.present, path.meter = None, Meter()
        path.held_until = None if self.lost else until

    def seen_by(self, link: Link, packet: bytes, now: float) -> None:
        """Note that something authentic came by this link."""
        if link.kind is not self.heard and carries_message(packet):
            self.heard = link.kind
        path = self.relays.get(link) if is_relay(link) else None
        if path is not None:
            path.held_until = None
            path.meter.alive_at = now

    def release(self, now: float) -> bool:
        """End holds that are over; tell whether there was one."""
        was_held = False
        for path in self.relays.values():
            if path.held_until is not None and now >= path.held_until:
                path.held_until = None
                was_held = True
        return was_held

    def fit(self, link: Link, relay_queue_bytes: int) -> None:
        """Let the session's windows fit the path in use, and the peer's.

        The peer chooses for itself: as long as its messages come by a relay, no more is
        granted than a relay keeps, even if ours go by a direct link.
        """
        kind = self.heard if self.heard is PathKind.RELAY else link.kind
        if kind is self.kind:
            return
        self.kind = kind
        windows = windows_of(kind, relay_queue_bytes)
        self.session.set_window(windows.first, windows.most)

    @property
    def is_held(self) -> bool:
        """Whether a relay is given time to see the peer again."""
        return any(path.held_until is not None for path in self.relays.values())

    @property
    def needs_time(self) -> bool:
        """Whether something of it is due sooner or later."""
        due = bool(self.links) or self.used or self.measured or self.is_held
        return due or self.session.needs_time

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way with it."""
        return not self.dialling and not self.needs_time

    @property
    def direct(self) -> DirectLink | None:
        """A proven direct link that is not in doubt, if there is one."""
        for link in self.links:
            if link.proven and not link.meter.doubted:
                return link
        return None

    def meter_at(self, way: Way) -> Meter | None:
        """Return what is measured of a path; None if nothing is."""
        if isinstance(way, DirectLink):
            return way.meter
        path = self.relays.get(way)
        return None if path is None else path.meter


@dataclass(frozen=True, slots=True)
class Windows:
    """Bytes taken from one peer unconsumed: at first, and at most."""

    first: int
    most: int


def choose_link(peer: PeerState, relays: "Sequence[RelayLink]") -> Link | None:
    """Return the link for the next packet to this peer; None if there is none.

    The relays are in order of preference as long as nothing is measured.
    """
    chosen = peer.chosen
    if chosen is not None and _counts(peer, chosen):
        return chosen
    peer.chosen = min(
        _ways(peer, relays), key=lambda way: _trip(peer, way), default=None
    )
    return peer.chosen or _last_resort(peer, relays)


def prefer_proven(peer: PeerState, link: DirectLink) -> None:
    """Let a link that was just proven take over, unless the path in use is quicker."""
    chosen = peer.chosen
    if chosen is None or (
        chosen.kind is PathKind.RELAY and _trip(peer, link) <= _trip(peer, chosen)
    ):
        peer.chosen = link


def reconsider(peer: PeerState, relays: "Sequence[RelayLink]", now: float) -> bool:
    """Change to a path that has been better for long enough; tell whether it did.

    Call it when a probe was answered, and now and then.
    """
    chosen = peer.chosen
    if chosen is None:
        return False
    at_most = _BETTER * _trip(peer, chosen)
    better = [way for way in _ways(peer, relays) if _trip(peer, way) <= at_most]
    best = min(better, key=lambda way: _trip(peer, way), default=None)
    if best is None or at_most == _UNKNOWN:
        peer.rival = None
    elif best is not peer.rival:
        peer.rival, peer.rival_since = best, now
    elif now - peer.rival_since >= BETTER_FOR_S and _is_fresh(peer, best):
        peer.chosen, peer.rival = best, None
        return True
    return False


def is_relay(link: Link) -> "TypeGuard[RelayLink]":
    """Tell whether a link is one by way of a relay."""
    return link.kind is PathKind.RELAY


def is_absent(peer: PeerState, relays: "Sequence[RelayLink]") -> bool:
    """Tell whether every relay says that the peer is not there."""
    return all(
        (path := peer.relays.get(relay)) is not None and path.present is False
        for relay in relays
    )


def windows_of(kind: PathKind, relay_queue_bytes: int) -> Windows:
    """Return how much to take by such a path.

    By the relay no more than half of the queue that it keeps for us, so that honest
    peers never fill it; they begin with an eighth.
    """
    if kind is PathKind.DIRECT:
        return Windows(_DIRECT_WINDOW, _MAX_DIRECT_WINDOW)
    first = max(_MIN_RELAY_WINDOW, relay_queue_bytes // 8)
    return Windows(first, max(first, relay_queue_bytes // 2))


def _ways(peer: PeerState, relays: "Sequence[RelayLink]") -> Iterator[Way]:
    """Yield the paths that count, direct ones first."""
    ways: list[Way] = [*peer.links, *relays]
    for way in ways:
        if _counts(peer, way):
            yield way


def _counts(peer: PeerState, way: Way) -> bool:
    meter = peer.meter_at(way)
    return (meter is None or not meter.doubted) and _is_open(peer, way)


def _is_open(peer: PeerState, way: Way) -> bool:
    """Tell whether a path is there, in doubt or not."""
    if isinstance(way, DirectLink):
        return way.proven and way in peer.links
    if not way.up:
        return False
    path = peer.relays.get(way)
    return path is None or (path.held_until is None and path.present is not False)


def _trip(peer: PeerState, way: Way) -> float:
    meter = peer.meter_at(way)
    found = None if meter is None else meter.round_trip_s
    return _UNKNOWN if found is None else found


def _is_fresh(peer: PeerState, way: Way) -> bool:
    """Tell whether it was measured again since it became the rival."""
    meter = peer.meter_at(way)
    return meter is not None and meter.answered_at > peer.rival_since


def _last_resort(peer: PeerState, relays: "Sequence[RelayLink]") -> Link | None:
    """Return a path that does not count, where none does.

    Of paths in doubt the one that lived last. A direct link that is not proven carries
    the handshake that proves it. A relay that says that the peer is gone says so again,
    and that ends what waits for it.
    """
    ways: list[Way] = [*peer.links, *relays]
    doubted = [way for way in ways if _is_doubted(peer, way)]
    if doubted:
        return max(doubted, key=lambda way: _alive_at(peer, way))
    if peer.links:
        return peer.links[-1]
    if peer.is_held:
        return None
    return next((relay for relay in relays if relay.up), None)


def _is_doubted(peer: PeerState, way: Way) -> bool:
    meter = peer.meter_at(way)
    return meter is not None and meter.doubted and _is_open(peer, way)


def _alive_at(peer: PeerState, way: Way) -> float:
    meter = peer.meter_at(way)
    return _NEVER if meter is None else meter.alive_at
