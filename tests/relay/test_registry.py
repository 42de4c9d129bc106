"""Peers by id: duplicates in every order, watchers, contacts."""

import itertools

import pytest

from relay import registry as registry_module
from relay.handshake import Admitted
from relay.keys import PeerId
from relay.limits import KeepAlive, lane_caps, limits_of
from relay.outbox import Outbox
from relay.queues import DestinationQueue, QueueBudget
from relay.registry import Peer, Registry
from relay.tokens import RateClass, Role
from tests.support.relays import key

A, B, C = (key(number).peer_id for number in (1, 2, 3))


def new_peer(peer_id: PeerId, now: float = 0.0) -> Peer:
    admitted = Admitted(
        peer_id=peer_id,
        role=Role.WORKER,
        rate_class=RateClass.LAPTOP,
        caps=0,
        client_nonce=bytes(16),
        skew_us=0,
    )
    limits = limits_of(RateClass.LAPTOP)
    queue = DestinationQueue(lane_caps(limits), QueueBudget(max_bytes=10**9))
    return Peer(admitted, limits, KeepAlive(), Outbox(queue), now)


def test_a_peer_knows_what_is_left_of_its_lease() -> None:
    peer = new_peer(A)
    assert peer.lease_s(1e9) == 0
    peer.lease_until = 100.0
    assert [peer.lease_s(now) for now in (0.0, 39.5, 99.9, 101.0)] == [100, 61, 1, 1]


def test_the_newest_is_active_and_the_older_parked_for_ten_seconds() -> None:
    registry = Registry()
    first, second, third = (new_peer(A) for _ in range(3))
    assert registry.enter(first, 0.0).older is None
    entered = registry.enter(second, 5.0)
    assert entered.older is first
    assert entered.ended is None
    assert first.parked_until == 15.0
    entered = registry.enter(third, 6.0)
    assert entered.older is second
    assert entered.ended is first
    assert registry.active == {A: third}
    assert registry.parked == {A: second}


def test_the_parked_one_comes_back_when_the_newest_leaves() -> None:
    registry = Registry()
    first, second = new_peer(A), new_peer(A)
    registry.enter(first, 0.0)
    registry.enter(second, 0.0)
    left = registry.leave(second)
    assert left.was_active
    assert left.promoted is first
    assert first.parked_until is None
    assert registry.active == {A: first}
    assert registry.leave(first).promoted is None
    assert not registry.active


def test_a_parked_connection_that_is_told_to_go_takes_over_no_more() -> None:
    registry = Registry()
    first, second = new_peer(A), new_peer(A)
    registry.enter(first, 0.0)
    registry.enter(second, 0.0)
    registry.end_parked(second)  # is not parked
    registry.end_parked(first)
    left = registry.leave(second)
    assert left.was_active
    assert left.promoted is None
    assert not registry.leave(first).was_active


def test_duplicates_in_every_order_leave_nothing_behind() -> None:
    for order in itertools.permutations(range(3)):
        registry = Registry()
        peers = [new_peer(A) for _ in range(3)]
        for peer in peers:
            registry.enter(peer, 0.0)
        for n_left, index in enumerate(order):
            registry.leave(peers[index])
            active = registry.active.get(A)
            assert (active is None) == (n_left == 2 or active not in peers)
            assert active is None or peers.index(active) not in order[: n_left + 1]
        assert not registry.active
        assert not registry.parked


def test_watchers_are_those_that_are_active() -> None:
    registry = Registry()
    watcher, other = new_peer(B), new_peer(C)
    registry.enter(watcher, 0.0)
    registry.enter(other, 0.0)
    registry.watch(watcher, [A])
    assert list(registry.watchers(A)) == [watcher]
    registry.enter(new_peer(B), 0.0)
    assert not list(registry.watchers(A))
    registry.leave(watcher)
    assert not registry._watchers


def test_watching_of_all_is_bounded_and_who_watches_little_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_module, "_MAX_WATCHED_BY_ALL", 100)
    registry = Registry()
    modest, *greedy = (new_peer(each) for each in (A, B, C))
    ids = [PeerId(n.to_bytes(32, "big")) for n in range(200)]
    for peer in (modest, *greedy):
        registry.enter(peer, 0.0)
    registry.watch(modest, ids[:10])
    for at in range(0, 200, 20):
        for peer in greedy:
            registry.watch(peer, ids[at : at + 20])
            registry.watch(peer, ids[at : at + 20])  # again: counted once
        total = sum(len(each.watched) for each in (modest, *greedy))
        assert total == registry._n_watched <= 100
    assert list(modest.watched) == ids[:10]
    assert all(ids[-1] in peer.watched for peer in greedy)
    for peer in (modest, *greedy):
        registry.leave(peer)
    assert registry._n_watched == 0
    assert not registry._watchers


def test_watching_is_bounded() -> None:
    registry = Registry()
    watcher = new_peer(B)
    registry.enter(watcher, 0.0)
    ids = [PeerId(n.to_bytes(32, "big")) for n in range(4097)]
    registry.watch(watcher, ids[:-1])
    registry.watch(watcher, ids[:1])  # named again: it is among the newest
    registry.watch(watcher, ids[-1:])
    assert len(watcher.watched) == 4096
    assert not list(registry.watchers(ids[1]))
    assert list(registry.watchers(ids[0])) == [watcher]
    registry.forget_watches(watcher)
    assert not watcher.watched
    assert not registry._watchers


def test_those_concerned_are_watchers_and_recent_contacts() -> None:
    registry = Registry()
    peers = {peer_id: new_peer(peer_id) for peer_id in (A, B, C)}
    for peer in peers.values():
        registry.enter(peer, 0.0)
    assert not registry.concerned(peers[A], 0.0)
    peers[A].contacts[B] = 10.0
    peers[A].contacts[A] = 10.0
    registry.watch(peers[C], [A])
    assert registry.concerned(peers[A], 11.0) == {peers[B], peers[C]}
    assert registry.concerned(peers[A], 71.0) == {peers[C]}


def test_contacts_are_bounded() -> None:
    peer = new_peer(A)
    for n in range(100):
        peer.contacts[PeerId(n.to_bytes(32, "big"))] = 0.0
    peer.forget_old_contacts(30.0)
    assert len(peer.contacts) == 100
    peer.forget_old_contacts(61.0)
    assert not peer.contacts
    for n in range(5000):
        peer.contacts[PeerId(n.to_bytes(32, "big"))] = n / 1000
    peer.forget_old_contacts(5.0)
    assert len(peer.contacts) == 4096
    assert PeerId((4999).to_bytes(32, "big")) in peer.contacts
