"""Two relays and their word of peers: who is lost, who is not, and by whose fault."""

import pytest

from mobile_worker.links.events import (
    Arrived,
    LostReason,
    PeerBack,
    PeerLost,
    PeerSeenFrom,
    RelayChanged,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.relay_side import RETURN_S, RelayNews
from mobile_worker.messages import Cancel
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet
from relay.frame_types import NackReason, StatusCode
from tests.mobile_worker.links.test_switchboard import FakeRelay, HandClock, Post, carry


@pytest.fixture
def pair():
    """Two nodes that speak, each at home on two relays."""
    clock = HandClock()
    a, b = Post(1, clock), Post(2, clock)
    for post in (a, b):
        post.other = FakeRelay()
        post.board.relays = (post.relay, post.other)
    a.send(b.id, Cancel(request=1))
    carry(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=1), 19)]
    for relay in (a.relay, a.other):
        a.side.peer_present(relay, b.id, here=True)
    return a, b


def go_down(post, relay, unsent=()):
    relay.up = False
    post.side.relay_down(relay, unsent, "cut")


def carry_over_other(a, b):
    """Carry what a sent over its second relay; say whether that was anything."""
    sent, a.other.sent = a.other.sent, []
    for _, payload in sent:
        b.board.packet_arrived(b.other, a.id, payload)
    return bool(sent)


def test_both_relays_watch_the_peer(pair):
    a, b = pair
    assert b.id in a.relay.watched & a.other.watched


def test_from_where_a_relay_sees_a_peer_is_told_of_peers_that_we_know(pair):
    a, b = pair
    a.events()
    a.side.peer_seen_from(b.id, "203.0.113.0/24")
    a.side.peer_seen_from(Post(9, HandClock()).id, "198.51.100.0/24")
    assert a.events() == [PeerSeenFrom(b.id, "203.0.113.0/24")]


def test_losing_one_relay_is_no_event_and_the_other_carries_on_at_once(pair):
    a, b = pair
    waiting = Packet(MessageClass.CONTROL, b"not sent yet")
    go_down(a, a.relay, [(b.id, waiting)])
    assert a.other.sent == [(b.id, b"not sent yet")]
    a.other.sent.clear()
    a.send(b.id, Cancel(request=2))
    assert carry_over_other(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=2), 19)]
    for _ in range(200):
        a.clock.now += 0.2
        a.board.tick()
    assert a.events() == []


def test_a_relay_that_swallows_everything_is_left_within_two_seconds(pair):
    a, b = pair
    a.clock.now += 60  # nothing was said for long
    for step in range(40):
        a.clock.now += 0.2
        a.send(b.id, Cancel(request=step + 2))
        a.relay.sent.clear()
        b.relay.sent.clear()
        carry_over_other(a, b)
        for _, payload in b.other.sent:
            a.board.packet_arrived(a.other, b.id, payload)
        b.other.sent.clear()
        a.board.tick()
        b.board.tick()
        if b.events():
            break
    assert step < 10
    assert a.events() == []


def test_losing_both_is_told_and_loses_no_peer(pair):
    a, b = pair
    go_down(a, a.relay)
    go_down(a, a.other)
    a.send(b.id, Cancel(request=2))
    for _ in range(300):
        a.clock.now += 0.2
        a.board.tick()
    assert a.events() == [RelayChanged(up=False, detail="cut")]
    a.other.up = True
    a.side.relay_up(a.other, a.welcome)
    a.side.peer_present(a.other, b.id, here=True)
    assert [type(event) for event in a.events()] == [RelayChanged]
    a.clock.now += 60
    a.board.tick()
    assert carry_over_other(a, b)


def test_a_peer_gone_from_one_relay_is_reached_over_the_other(pair):
    a, b = pair
    a.side.peer_present(a.relay, b.id, here=False)
    a.send(b.id, Cancel(request=2))
    assert carry_over_other(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=2), 19)]
    a.side.frames_refused(a.other, b.id, NackReason.GONE, 1)
    assert a.events() == [
        PeerLost(b.id, LostReason.GONE),
        Undelivered(b.id, UndeliveredReason.NOT_HERE, 1),
    ]
    a.side.peer_present(a.relay, b.id, here=True)
    assert a.events() == [PeerBack(b.id)]


def test_a_refused_frame_is_told_though_the_peer_is_elsewhere(pair):
    a, b = pair
    a.side.frames_refused(a.relay, b.id, NackReason.GONE, 2)
    assert a.events() == [Undelivered(b.id, UndeliveredReason.NOT_HERE, 2)]


def test_a_peer_that_leaves_while_one_relay_is_away_gets_time_to_be_seen(pair):
    a, b = pair
    go_down(a, a.relay)
    a.side.peer_present(a.other, b.id, here=False)
    a.clock.now += RETURN_S - 1
    a.board.tick()
    assert a.events() == []
    a.clock.now += 2
    a.board.tick()
    assert a.events() == [PeerLost(b.id, LostReason.GONE)]


def test_a_home_that_comes_later_loses_nobody(pair):
    a, b = pair
    go_down(a, a.other)
    a.other.up = True
    a.side.relay_up(a.other, a.welcome)
    a.side.peer_present(a.other, b.id, here=False)
    for _ in range(100):
        a.clock.now += 0.2
        a.board.tick()
    a.relay.sent.clear()
    a.send(b.id, Cancel(request=2))
    assert a.events() == []
    assert a.relay.sent


def test_a_peer_that_may_be_elsewhere_is_looked_for_before_it_is_lost(pair):
    a, b = pair
    sought = []

    def seek(peer, _state):
        sought.append(peer)
        return len(sought) < 2

    a.board._seek = seek
    a.side.peer_present(a.relay, b.id, here=False)
    assert sought == []
    a.side.peer_present(a.other, b.id, here=False)
    assert sought == [b.id]
    assert a.events() == []
    a.side.peer_present(a.other, b.id, here=False)
    assert a.events() == [PeerLost(b.id, LostReason.GONE)]


def test_a_relay_that_we_leave_says_nothing_of_its_peers(pair):
    a, b = pair
    a.board.relays = (a.other,)
    a.side.relay_gone(a.relay)
    assert a.relay not in a.board.peers[b.id].relays
    a.send(b.id, Cancel(request=2))
    assert carry_over_other(a, b)
    assert a.events() == []


def test_what_a_relay_says_of_itself_is_handed_on(pair):
    a, _ = pair
    heard = []
    a.side._news = lambda *news: heard.append(news)
    a.side.relay_says(a.relay, StatusCode.RATE_LIMITED)
    a.side.relay_says(a.relay, StatusCode.DRAINING)
    a.side.relay_says(a.other, StatusCode.NEW_MAP)
    a.side.relay_up(a.other, a.welcome)
    assert heard == [
        (a.relay, RelayNews.DRAINING, 0),
        (a.other, RelayNews.NEW_MAP, 0),
        (a.other, RelayNews.WELCOME, 0),
    ]


def test_peers_read_our_new_record_a_few_at_a_time(pair):
    a, b = pair
    assert a.presence.set_relays(("wss://new.example/relay#00",))
    assert not a.presence.set_relays(("wss://new.example/relay#00",))
    a.side.our_record_changed()
    a.clock.now += 5
    a.side.tick()
    carry(a, b)
    assert b.board.peers[a.id].session.record.relays == ("wss://new.example/relay#00",)
    assert a.events() == [RelayChanged(up=True, detail="other home relays")]
    a.side.tick()
    assert a.relay.sent == []


def test_after_the_end_nothing_is_told(pair):
    a, _ = pair
    a.board.close()
    a.events()
    go_down(a, a.relay)
    go_down(a, a.other)
    assert a.events() == []
