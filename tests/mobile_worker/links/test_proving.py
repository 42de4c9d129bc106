"""Probes of direct links."""

from types import SimpleNamespace

from mobile_worker.links.proving import probe_answered, prove, watch_link
from mobile_worker.messages.classes import MessageClass


class FakeLink:
    peer = b"p" * 32

    def __init__(self):
        self.sent = []
        self.proven = False
        self.token = 0
        self.probed_at = float("-inf")
        self.opened_at = self.heard_at = 100.0
        self.round_trip_s = None
        self.aborted = None

    def send(self, peer, packet):
        self.sent.append(packet)

    def abort(self, reason):
        self.aborted = reason


SESSION = SimpleNamespace(probe=lambda token: b"probe %d" % token)
NO_KEYS = SimpleNamespace(probe=lambda token: None)


def test_a_probe_goes_out_if_there_are_keys():
    link = FakeLink()
    prove(link, NO_KEYS, 7, 100.0)
    assert link.sent == []
    prove(link, SESSION, 7, 100.0)
    assert link.sent == [(MessageClass.CONTROL, b"probe 7")]


def test_the_right_answer_proves_the_link_once():
    link = FakeLink()
    prove(link, SESSION, 7, 100.0)
    assert not probe_answered(link, 8, 100.1)
    assert not link.proven
    assert probe_answered(link, 7, 100.5)
    assert link.proven
    assert link.round_trip_s == 0.5
    assert not probe_answered(link, 7, 101.0)


def test_a_quiet_link_is_probed_and_then_closed():
    link = FakeLink()
    link.proven = True
    watch_link(link, SESSION, 1, 104.0)
    assert not link.sent
    watch_link(link, SESSION, 2, 105.5)
    watch_link(link, SESSION, 3, 106.0)
    assert len(link.sent) == 1
    watch_link(link, SESSION, 4, 116.0)
    assert link.aborted


def test_a_link_that_is_never_proven_is_closed():
    link = FakeLink()
    for now in range(100, 111):
        link.heard_at = float(now)
        watch_link(link, SESSION, now, float(now))
        assert not link.aborted
    watch_link(link, SESSION, 1, 111.0)
    assert link.aborted
    assert len(link.sent) >= 3
