"""Which relay a peer is answered over, and where a handshake goes next."""

from types import SimpleNamespace

import pytest

from mobile_worker.links.events import PathKind
from mobile_worker.links.failover import (
    FOLLOW_MESSAGE_S,
    FOLLOW_S,
    follow,
    try_another,
)
from mobile_worker.links.paths import PeerState


class Relay:
    kind = PathKind.RELAY
    up = True


class Direct:
    kind = PathKind.DIRECT


def state(n_offers=0, **changes):
    session = SimpleNamespace(n_offers=n_offers)
    return PeerState(session=session, **changes)


@pytest.mark.parametrize("is_message", [False, True])
@pytest.mark.parametrize(("silent_s", "follows"), [(0.1, False), (1.1, True)])
def test_a_peer_is_followed_once_the_relay_in_use_is_silent(
    is_message, silent_s, follows
):
    one, other = Relay(), Relay()
    peer = state(chosen=one)
    now = 100.0
    patience_s = FOLLOW_MESSAGE_S if is_message else FOLLOW_S
    peer.at(one).meter.alive_at = now - silent_s * patience_s
    follow(peer, other, now, is_message=is_message)
    assert peer.chosen is (other if follows else one)
    assert peer.at(other).meter.alive_at == now


def test_a_direct_link_in_use_stays_and_is_not_followed():
    link, relay = Direct(), Relay()
    peer = state(chosen=link)
    follow(peer, relay, 100.0, is_message=True)
    follow(peer, link, 100.0, is_message=True)
    assert peer.chosen is link
    peer = state(chosen=relay)
    follow(peer, link, 100.0, is_message=True)
    assert peer.chosen is relay


def test_a_handshake_that_is_repeated_goes_round_the_relays():
    relays = [Relay(), Relay(), Relay()]
    peer = state(n_offers=1, chosen=relays[0])
    try_another(peer, relays)
    assert peer.chosen is relays[0]
    tried = []
    for n_offers in range(2, 8):
        peer.session.n_offers = n_offers
        try_another(peer, relays)
        tried.append(relays.index(peer.chosen))
    assert tried == [1, 2, 0, 1, 2, 0]


def test_only_relays_that_may_have_the_peer_are_tried():
    down, gone, held, good = Relay(), Relay(), Relay(), Relay()
    down.up = False
    peer = state(n_offers=2)
    peer.at(gone).present = False
    peer.at(held).held_until = 5.0
    try_another(peer, [down, gone, held, good])
    assert peer.chosen is good
    try_another(peer, [good])
    try_another(peer, [down, gone])
    assert peer.chosen is good
