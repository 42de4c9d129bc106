"""Limits, leases, revocations and drains, moved by new settings and by time."""

from dataclasses import replace

import pytest

from relay.forwarding import Switch
from relay.frame_types import GoneReason, Limits, Status, StatusCode
from relay.frames import parse_frame
from relay.handshake import Admitted
from relay.limits import KeepAlive, limits_of
from relay.live import DEFAULT_RATES, LiveSettings
from relay.queues import QueueBudget
from relay.registry import Peer
from relay.relay_map import RelayEntry, RelayMap
from relay.revocations import Revocations, token_hash
from relay.terms import Terms
from relay.tokens import RateClass, Role
from tests.support.relays import NETWORK, RELAY, key

URL = "wss://relay.example/relay"
HASH = token_hash(b"a token")
SMALL = replace(limits_of(RateClass.PHONE), bytes_s=1000, burst=2000, frames_s=10)


def relay_map(version: int, *, draining: bool) -> RelayMap:
    entry = RelayEntry(URL, RELAY.peer_id, draining=draining)
    return RelayMap(network=NETWORK.peer_id, version=version, entries=(entry,))


class World:
    """A switch with the terms of this relay, and what ended whom."""

    def __init__(self, live: LiveSettings | None = None) -> None:
        terms = Terms(live or LiveSettings(), RELAY.peer_id, "/relay")
        self.switch = Switch(QueueBudget(max_bytes=1 << 20), terms)
        self.ended: dict[Peer, str] = {}

    def peer(self, number: int, *, now: float = 0.0, told=None, **changes) -> Peer:
        values = {
            "peer_id": key(number).peer_id,
            "role": Role.WORKER,
            "rate_class": RateClass.PHONE,
            "caps": 0,
            "client_nonce": bytes(16),
            "skew_us": 0,
        }
        admitted = Admitted(**(values | changes))
        live = self.switch.terms.live
        limits = told or live.limits(admitted.rate_class, admitted.lease_s)
        peer = self.switch.admit(admitted, limits, KeepAlive(), now)

        def end(reason: GoneReason, code: int, detail: str) -> None:
            assert (reason, code) == (GoneReason.REFUSED, 1008)
            self.ended[peer] = detail

        peer.end = end
        self.switch.enter(peer, now)
        return peer


def told(peer: Peer) -> list[object]:
    """What the relay says to a peer, frame by frame."""
    batch = peer.outbox.take(1 << 20, 0.0)
    return [parse_frame(bytes(part)) for part in batch.parts[1::2]]


def test_new_limits_go_to_those_of_the_class_alone() -> None:
    world = World()
    phone = world.peer(1)
    hub = world.peer(2, rate_class=RateClass.HUB, lease_s=100)
    rates = {**DEFAULT_RATES, RateClass.PHONE: SMALL}
    applied = world.switch.apply(LiveSettings(rates=rates), 10.0)
    assert (applied.n_limits, applied.n_revoked) == (1, 0)
    assert told(phone) == [SMALL]
    assert phone.limits == SMALL
    assert not told(hub)
    assert phone.bytes_bucket.take(5000, 10.0) == pytest.approx(3.0)
    assert world.switch.apply(LiveSettings(rates=rates), 11.0).n_limits == 0
    back = world.switch.apply(LiveSettings(), 12.0)
    assert back.n_limits == 1


def test_limits_tell_what_is_left_of_the_lease() -> None:
    world = World()
    peer = world.peer(1, lease_s=100)
    rates = {**DEFAULT_RATES, RateClass.PHONE: SMALL}
    world.switch.apply(LiveSettings(rates=rates), 40.0)
    (limits,) = told(peer)
    assert isinstance(limits, Limits)
    assert limits.lease_s == 60


def test_limits_that_changed_behind_the_welcome_are_told() -> None:
    rates = {**DEFAULT_RATES, RateClass.PHONE: SMALL}
    world = World(LiveSettings(rates=rates))
    assert told(world.peer(1, told=limits_of(RateClass.PHONE))) == [SMALL]
    assert told(world.peer(2, told=SMALL)) == []
    assert told(world.peer(3)) == []


def test_who_is_revoked_is_told_and_ended() -> None:
    world = World()
    by_id, by_token, other = (
        world.peer(1),
        world.peer(2, token_hash=HASH),
        world.peer(3, token_hash=token_hash(b"another")),
    )
    revoked = Revocations(
        tokens=frozenset({HASH}), peers=frozenset({key(1).peer_id, key(9).peer_id})
    )
    applied = world.switch.apply(LiveSettings(revoked=revoked), 0.0)
    assert applied.n_revoked == 2
    assert world.ended == {
        by_id: "the network has shut this peer out",
        by_token: "the network token was revoked",
    }
    (status,) = told(by_token)
    assert isinstance(status, Status)
    assert status.code is StatusCode.LEASE_ENDING
    assert not told(other)
    late = world.peer(9)  # its welcome was on its way
    assert late in world.ended


def test_a_parked_connection_is_revoked_too() -> None:
    world = World()
    older, newer = world.peer(1, token_hash=HASH), world.peer(1)
    revoked = Revocations(tokens=frozenset({HASH}))
    world.switch.apply(LiveSettings(revoked=revoked), 0.0)
    assert older in world.ended
    assert newer not in world.ended


def test_a_token_ends_with_a_warning_a_minute_before() -> None:
    world = World()
    peer, endless = world.peer(1, lease_s=100), world.peer(2)
    for now in (0.0, 39.0):
        peer.last_read = endless.last_read = now
        world.switch.tick(now)
        assert told(peer) == []
    for now in (40.5, 41.0, 99.9):
        peer.last_read = endless.last_read = now
        world.switch.tick(now)
    (status,) = told(peer)
    assert status == Status(
        code=StatusCode.LEASE_ENDING, text="the network token ends in 60 s"
    )
    assert not world.ended
    world.switch.tick(100.0)
    assert world.ended == {peer: "the network token has expired"}
    assert told(endless) == []


def test_a_new_map_and_a_drain_are_told_once() -> None:
    world = World()
    peer = world.peer(1)
    kept = world.switch.apply(LiveSettings(relay_map=relay_map(1, draining=False)), 0.0)
    assert not kept.is_draining
    (news,) = told(peer)
    assert news == Status(code=StatusCode.NEW_MAP, text="relay map 1")
    drained = LiveSettings(relay_map=relay_map(2, draining=True))
    assert world.switch.apply(drained, 0.0).is_draining
    codes = [status.code for status in told(peer)]
    assert codes == [StatusCode.NEW_MAP, StatusCode.DRAINING]
    world.switch.apply(drained, 0.0)
    assert told(peer) == []
    assert [status.code for status in told(world.peer(2))] == [StatusCode.DRAINING]
    assert not world.ended
