"""Which link the next packet goes by."""

from types import SimpleNamespace

from mobile_worker.links.events import PathKind
from mobile_worker.links.paths import PeerState, choose_link, windows_of


def link(*, proven):
    return SimpleNamespace(proven=proven)


def state(*links, present=None):
    return PeerState(session=None, links=list(links), present=present)


UP, DOWN = SimpleNamespace(up=True), SimpleNamespace(up=False)
PROVEN, OTHER, UNPROVEN = link(proven=True), link(proven=True), link(proven=False)


def test_a_proven_direct_link_is_preferred():
    assert choose_link(state(UNPROVEN, PROVEN, OTHER), UP) is PROVEN
    assert choose_link(state(PROVEN), None) is PROVEN
    assert state(UNPROVEN, OTHER).direct is OTHER


def test_the_relay_is_preferred_to_a_link_that_is_not_proven():
    assert choose_link(state(UNPROVEN), UP) is UP
    assert choose_link(state(UNPROVEN, present=True), UP) is UP


def test_what_is_not_proven_serves_where_there_is_nothing_better():
    assert choose_link(state(UNPROVEN), None) is UNPROVEN
    assert choose_link(state(UNPROVEN), DOWN) is UNPROVEN
    assert choose_link(state(UNPROVEN, present=False), UP) is UNPROVEN


def test_a_peer_that_is_not_there_is_still_tried_by_the_relay():
    assert choose_link(state(present=False), UP) is UP
    assert choose_link(state(), DOWN) is None
    assert choose_link(state(), None) is None


def test_windows_fit_the_queue_at_the_relay():
    direct = windows_of(PathKind.DIRECT, 0)
    for queue_bytes in (0, 256 << 10, 4 << 20):
        windows = windows_of(PathKind.RELAY, queue_bytes)
        assert (
            64 << 10 <= windows.first <= windows.most <= max(64 << 10, queue_bytes // 2)
        )
        assert windows.most < direct.first
