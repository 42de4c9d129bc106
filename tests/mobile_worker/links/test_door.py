"""The door: strangers, acquaintances, and who may say what."""

import os

import pytest

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.door import Door, may_knock, may_say
from mobile_worker.links.meter import Meter
from mobile_worker.links.paths import PeerState
from mobile_worker.messages.envelope import MessageType
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.packets import PacketKind
from mobile_worker.session.session import Session
from relay.keys import PeerId
from tests.support.nodes import identity
from tests.support.sessions import NETWORK, make_record


def own_side() -> OwnSide:
    return OwnSide(
        identity=identity(1),
        network=NETWORK,
        instance=bytes(8),
        record=lambda: make_record(identity(1)).encoded,
        random_bytes=os.urandom,
    )


MARKET, OTHER = PeerId(b"m" * 32), PeerId(b"o" * 32)


def peer(number: int) -> PeerId:
    return PeerId(number.to_bytes(32, "big"))


@pytest.fixture
def watched() -> list[PeerId]:
    return []


@pytest.fixture
def own() -> OwnSide:
    return own_side()


@pytest.fixture
def door(own: OwnSide, watched: list[PeerId]) -> Door:
    return Door(own, watched.append, max_peers=8, max_strangers=3)


def test_of_strangers_the_newest_are_kept(door: Door, watched: list[PeerId]) -> None:
    for number in range(100):
        door.stranger(peer(number))
    assert list(door.peers) == [peer(97), peer(98), peer(99)]
    assert watched == []


def test_who_has_proven_itself_stays(door: Door, watched: list[PeerId]) -> None:
    door.stranger(peer(1))
    door.proved(peer(1))
    assert watched == [peer(1)]
    for number in range(10, 50):
        door.stranger(peer(number))
    assert peer(1) in door.peers
    assert not door.is_stranger(peer(1))
    door.proved(peer(1))
    assert watched == [peer(1)]


def test_whom_our_owner_speaks_of_is_no_stranger(
    door: Door, watched: list[PeerId]
) -> None:
    door.stranger(peer(1))
    state = door.known(peer(1))
    assert state is door.known(peer(1))
    door.known(peer(2))
    assert watched == [peer(1), peer(2)]
    assert not door.is_stranger(peer(1))


def test_above_the_bound_the_idle_one_that_proved_itself_first_goes(
    door: Door,
) -> None:
    for number in range(8):
        door.known(peer(number))
    door.known(peer(0)).session.add(bytes(100), 0)
    door.proved(peer(1))
    door.known(peer(9))
    assert peer(0) in door.peers  # something waits for it
    assert peer(1) in door.peers
    assert peer(2) not in door.peers
    assert len(door.peers) == 8


def test_forgetting_gives_everything_back(door: Door, own: OwnSide) -> None:
    door.known(peer(0)).session.add(bytes(100), 0)
    assert own.waiting.n_bytes == 100
    door.forget(peer(0))
    assert own.waiting.n_bytes == 0
    door.stranger(peer(1))
    door.forget(peer(1))
    door.forget(peer(1))
    assert not door.peers
    assert not door.is_stranger(peer(1))


def test_handshakes_by_links_that_prove_nothing_are_few() -> None:
    state = PeerState(session=Session(own_side(), peer(1)))
    link = DirectLink.__new__(DirectLink)
    link.meter = Meter()
    knock, sealed = bytes((PacketKind.XX_1,)) + bytes(80), bytes((PacketKind.SEALED,))
    assert sum(may_knock(link, state, knock, 10.0) for _ in range(50)) == 4
    assert may_knock(link, state, sealed, 10.0)
    assert sum(may_knock(link, state, knock, 12.0) for _ in range(50)) == 2
    link.meter.proven = True
    assert may_knock(link, state, knock, 12.0)


@pytest.mark.parametrize("kind", [MessageType.LEASE, MessageType.PLACEMENT])
def test_what_only_the_market_says_is_not_read_of_others(kind: MessageType) -> None:
    network = NetworkDescriptor(network=peer(5), market=MARKET, ledger=peer(6))
    message = bytes((kind, 1, 2, 3))
    assert may_say(MARKET, message, network)
    assert not may_say(OTHER, message, network)
    assert may_say(OTHER, bytes((MessageType.HELLO, 1)), network)
    assert may_say(OTHER, message, None)
