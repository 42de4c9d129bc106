"""Which link the next packet goes by."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.events import PathKind
from mobile_worker.links.meter import Meter
from mobile_worker.links.paths import (
    BETTER_FOR_S,
    PeerState,
    choose_link,
    is_absent,
    prefer_proven,
    reconsider,
    windows_of,
)


class Direct(DirectLink):
    def __init__(self, *, trip_s=None):
        self.meter = Meter()
        if trip_s is not None:
            measure(self.meter, trip_s)


class Relay:
    kind = PathKind.RELAY

    def __init__(self, *, up=True):
        self.up = up


def measure(meter, trip_s, now=0.0):
    """Let a probe be answered at `now`."""
    meter.probed(1, now - trip_s)
    assert meter.answered(1, now)


def state(*links, **changes):
    return PeerState(session=None, links=list(links), **changes)


def at(peer, relay, **changes):
    for name, value in changes.items():
        setattr(peer.at(relay), name, value)
    return peer


UP, DOWN = Relay(), Relay(up=False)


def test_a_proven_direct_link_is_preferred_to_a_relay_that_is_not_measured():
    proven, unproven = Direct(trip_s=0.3), Direct()
    assert choose_link(state(unproven, proven), [UP]) is proven
    assert choose_link(state(proven), []) is proven
    assert state(unproven, proven).direct is proven


def test_the_relay_is_preferred_to_a_link_that_is_not_proven():
    assert choose_link(state(Direct()), [UP]) is UP
    assert choose_link(at(state(Direct()), UP, present=True), [UP]) is UP


def test_what_is_not_proven_serves_where_there_is_nothing_better():
    unproven = Direct()
    assert choose_link(state(unproven), []) is unproven
    assert choose_link(state(unproven), [DOWN]) is unproven
    assert choose_link(at(state(unproven), UP, present=False), [UP]) is unproven


def test_a_peer_that_is_not_there_is_still_tried_by_the_relay():
    assert choose_link(at(state(), UP, present=False), [UP]) is UP
    assert choose_link(state(), [DOWN]) is None
    assert choose_link(state(), []) is None


def test_a_peer_is_reached_by_the_relay_that_has_it():
    one, other = Relay(), Relay()
    peer = state()
    assert choose_link(peer, [one, other]) is one
    peer.at(one).present = False
    assert choose_link(peer, [one, other]) is other
    assert not is_absent(peer, [one, other])
    peer.at(one).present = True  # the other one is in use now, and stays
    assert choose_link(peer, [one, other]) is other
    other.up = False
    assert choose_link(peer, [one, other]) is one
    peer.at(one).present = peer.at(other).present = False
    assert is_absent(peer, [one, other])


def test_a_relay_that_is_new_to_us_is_held_until_the_peer_is_seen():
    one, other = Relay(), Relay()
    peer = state()
    peer.hold(one, 15.0)
    assert peer.is_held
    assert choose_link(peer, [one]) is None
    assert choose_link(peer, [one, other]) is other
    peer.seen_by(one, b"", 1.0)
    assert not peer.is_held
    peer.hold(one, 15.0)
    assert not peer.release(14.9)
    peer.at(one).present = False
    assert peer.release(15.0)
    lost = state(lost=True)
    lost.hold(one, 15.0)
    assert not lost.is_held


def test_a_path_in_doubt_is_left_at_once_and_serves_if_all_are():
    direct, relay = Direct(trip_s=0.001), Relay()
    peer = state(direct)
    assert choose_link(peer, [relay]) is direct
    direct.meter.doubted = True
    assert peer.direct is None
    assert choose_link(peer, [relay]) is relay
    peer.at(relay).meter.doubted = True
    peer.at(relay).meter.alive_at = 50.0
    assert choose_link(peer, [relay]) is relay
    direct.meter.alive_at = 60.0
    assert choose_link(peer, [relay]) is direct
    direct.meter.doubted = False
    peer.links.clear()
    assert choose_link(peer, [relay]) is relay


def test_a_new_connection_to_a_relay_ends_what_was_thought_of_the_old_one():
    peer = state()
    peer.at(UP).meter.doubted = True
    peer.hold(UP, 15.0)
    peer.seen_by(UP, b"", 1.0)
    assert not peer.at(UP).meter.doubted
    assert choose_link(peer, [UP]) is UP


def test_a_link_proven_just_now_takes_over_unless_the_relay_is_quicker():
    direct = Direct(trip_s=0.050)
    peer = state(direct, chosen=UP)
    prefer_proven(peer, direct)
    assert peer.chosen is direct
    peer = state(direct, chosen=UP)
    measure(peer.at(UP).meter, 0.020)
    prefer_proven(peer, direct)
    assert peer.chosen is UP
    other = Direct(trip_s=0.010)
    peer = state(direct, other, chosen=direct)
    prefer_proven(peer, other)
    assert peer.chosen is direct


def test_a_path_20_percent_better_for_5_s_takes_over():
    slow, quick = Direct(trip_s=0.010), Direct(trip_s=0.0079)
    peer = state(slow, quick, chosen=slow)
    assert not reconsider(peer, [], 100.0)
    measure(quick.meter, 0.0079, 102.0)
    assert not reconsider(peer, [], 104.9)
    assert peer.chosen is slow
    assert reconsider(peer, [], 100.0 + BETTER_FOR_S)
    assert peer.chosen is quick


def test_a_path_that_is_better_only_now_and_then_does_not():
    slow, other = Direct(trip_s=0.010), Direct(trip_s=0.005)
    peer = state(slow, other, chosen=slow)
    for now in range(0, 60, 3):
        other.meter.round_trip_s = 0.005 if now % 2 else 0.009
        other.meter.answered_at = float(now)
        assert not reconsider(peer, [], float(now))
    assert peer.chosen is slow


def test_an_old_measurement_is_not_enough():
    slow, quick = Direct(trip_s=0.010), Direct(trip_s=0.001)
    peer = state(slow, quick, chosen=slow)
    for now in range(100):
        assert not reconsider(peer, [], 100.0 + now)


def test_a_relay_that_is_not_measured_is_not_left_for_guesses():
    peer = state(chosen=UP)
    other = Relay()
    measure(peer.at(other).meter, 0.001)
    for now in range(10):
        assert not reconsider(peer, [UP, other], float(now))
    assert not reconsider(state(), [UP, other], 0.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.floats(0.001, 1.0), st.floats(0.0, 3.0)),
        max_size=40,
    )
)
def test_paths_change_at_most_once_in_5_s(answers):
    links = [Direct(trip_s=0.1), Direct(trip_s=0.1)]
    peer = state(*links, chosen=links[0])
    now, changes = 0.0, []
    for number, trip_s, pause_s in answers:
        now += pause_s
        measure(links[number].meter, trip_s, now)
        if reconsider(peer, [], now):
            changes.append(now)
    assert all(
        late - early >= BETTER_FOR_S for early, late in itertools.pairwise(changes)
    )


def test_windows_fit_the_queue_at_the_relay():
    direct = windows_of(PathKind.DIRECT, 0)
    for queue_bytes in (0, 256 << 10, 4 << 20):
        windows = windows_of(PathKind.RELAY, queue_bytes)
        assert (
            64 << 10 <= windows.first <= windows.most <= max(64 << 10, queue_bytes // 2)
        )
        assert windows.most < direct.first


class Session:
    def __init__(self):
        self.windows = []

    def set_window(self, first, most):
        self.windows.append((first, most))


def test_windows_are_a_relays_while_either_side_uses_one():
    direct, message = Direct(trip_s=0.001), bytes((16,)) + bytes(100)
    peer = state(direct)
    peer.session = session = Session()
    peer.fit(UP, 256 << 10)
    peer.fit(direct, 256 << 10)
    peer.fit(direct, 256 << 10)
    assert [first for first, _ in session.windows] == [64 << 10, 8 << 20]
    peer.seen_by(UP, bytes((16,)) + bytes(30), 1.0)  # a probe says nothing
    peer.fit(direct, 256 << 10)
    assert len(session.windows) == 2
    peer.seen_by(UP, message, 1.0)
    peer.fit(direct, 256 << 10)
    assert session.windows[-1][0] == 64 << 10
    peer.seen_by(direct, message, 2.0)
    peer.fit(direct, 256 << 10)
    assert session.windows[-1][0] == 8 << 20
