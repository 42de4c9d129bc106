"""Probes: proving, measuring, doubting, with a clock that is moved by hand."""

from types import SimpleNamespace

import pytest

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.events import PathKind
from mobile_worker.links.meter import Meter
from mobile_worker.links.paths import PeerState, choose_link
from mobile_worker.links.proving import Prober
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet

PEER = b"p" * 32
WAITING = Packet(MessageClass.INTERACTIVE, b"not written yet")


class Direct(DirectLink):
    crowded = False

    def __init__(self, now):
        self.peer = PEER
        self.meter = Meter()
        self.opened_at = self.meter.alive_at = now
        self.aborted = None
        self.waiting = (WAITING,)

    def abort(self, reason):
        self.aborted = reason

    def take_back(self):
        waiting, self.waiting = self.waiting, ()
        return waiting


class Relay:
    kind = PathKind.RELAY
    up = True
    crowded = False


class World:
    """A node's prober and one peer that answers by some paths."""

    def __init__(self, *, keys=True, relays=()):
        self.now = 100.0
        self.relays = relays
        self.probes = []  # (link, token) on their way
        self.n_sent = 0
        self.unsent = []
        self.session = SimpleNamespace(
            probe=lambda token: token.to_bytes(8, "big") if keys else None,
            needs_time=False,
        )
        self.state = PeerState(session=self.session)
        self._next = iter(range(1, 1 << 20))
        self.prober = Prober(
            self.put, lambda n: next(self._next).to_bytes(n, "big"), self
        )

    def monotonic(self):
        return self.now

    def wall_us(self):
        return 0

    def put(self, link, peer, packet):
        assert peer == PEER
        self.n_sent += 1
        self.probes.append((link, int.from_bytes(packet, "big")))

    def direct(self):
        link = Direct(self.now)
        self.state.links.append(link)
        return link

    def step(self, *, answer_by=(), used=False, s=0.2):
        """Pass some time, look, and bring answers by these links."""
        self.now += s
        self.state.used = self.state.used or used
        self.unsent += self.prober.watch(PEER, self.state, self.relays)
        return self.answer(answer_by)

    def answer(self, links):
        probes, self.probes = self.probes, []
        proven = []
        for link, token in probes:
            if link in links:
                if self.prober.answered(link, self.state, token, self.relays):
                    proven.append(link)
            else:
                self.probes.append((link, token))
        return proven


def test_a_probe_goes_out_if_there_are_keys():
    world = World(keys=False)
    world.prober.prove(world.direct(), world.state)
    assert not world.n_sent
    world = World()
    link = world.direct()
    world.prober.prove(link, world.state)
    assert world.n_sent == 1
    link.crowded = True
    world.prober.prove(link, world.state)
    assert world.n_sent == 1


def test_the_answer_proves_the_link_once_and_it_takes_over():
    relay = Relay()
    world = World(relays=(relay,))
    link = world.direct()
    assert choose_link(world.state, world.relays) is relay
    world.prober.prove(link, world.state)
    [(_, token)] = world.probes
    assert not world.prober.answered(link, world.state, token + 1, world.relays)
    assert not world.prober.answered(relay, world.state, token, world.relays)
    assert not world.prober.answered(object(), world.state, token, world.relays)
    assert not link.proven
    assert world.answer([link]) == [link]
    assert choose_link(world.state, world.relays) is link
    world.prober.prove(link, world.state)
    assert world.answer([link]) == []


def test_a_quiet_link_is_probed_seldom_and_then_closed():
    world = World()
    link = world.direct()
    world.prober.prove(link, world.state)
    world.answer([link])
    for _ in range(24):
        world.step(answer_by=[link])
    assert world.n_sent == 1
    for _ in range(250):
        world.step(answer_by=[link])
    assert world.n_sent <= 12
    assert not link.aborted
    for _ in range(80):
        world.step()
    assert link.aborted == "the peer is silent"


def test_a_link_that_is_never_proven_is_closed():
    world = World()
    link = world.direct()
    for _ in range(49):
        link.meter.alive_at = world.now
        world.step()
        assert not link.aborted
    assert world.n_sent >= 3
    world.step(s=0.5)
    assert link.aborted


def proven_pair(*, trip_s=0.001):
    """A peer with a direct link in use and a relay behind it."""
    relay = Relay()
    world = World(relays=(relay,))
    link = world.direct()
    world.prober.prove(link, world.state)
    world.now += trip_s
    world.answer([link])
    assert choose_link(world.state, world.relays) is link
    return world, link, relay


def test_demoted_within_a_second_of_the_lost_probe():
    world, link, relay = proven_pair()
    for _ in range(10):
        world.step(answer_by=[link, relay], used=True)
        link.meter.alive_at = world.now
    died = world.now
    while link.meter.alive_at >= world.state.used_at or not any(
        way is link for way, _ in world.probes
    ):
        world.step(answer_by=[relay], used=True)
    lost = world.now  # the probe that asks has just left, and is lost
    while choose_link(world.state, world.relays) is link:
        world.step(answer_by=[relay], used=True)
    assert world.now - lost < 1.0
    assert world.now - died < 1.6
    assert world.unsent == [WAITING]
    assert not link.aborted


def test_a_link_back_from_doubt_takes_over_only_after_5_s():
    world, link, relay = proven_pair()
    while choose_link(world.state, world.relays) is link:
        world.step(answer_by=[relay], used=True)
    world.state.at(relay).meter.round_trip_s = 0.050
    back = None
    for _ in range(100):
        world.step(answer_by=[link], used=True)
        world.state.at(relay).meter.alive_at = world.now
        if back is None and not link.meter.doubted:
            back = world.now
            assert choose_link(world.state, world.relays) is relay
        if choose_link(world.state, world.relays) is link:
            break
    assert 5.0 <= world.now - back < 12.0


def test_bytes_received_are_life_enough():
    world, link, _ = proven_pair()
    for _ in range(100):
        world.step(used=True)
        link.meter.alive_at = world.now  # a shard comes in, the answer waits behind it
    assert choose_link(world.state, world.relays) is link


def test_a_link_that_is_not_in_use_is_not_doubted_quickly():
    world, link, relay = proven_pair()
    for _ in range(24):
        world.step(answer_by=[relay])
    assert not link.meter.doubted
    assert world.n_sent == 1


def test_paths_are_measured_while_the_peer_is_in_use():
    world, link, relay = proven_pair()
    for _ in range(100):
        link.meter.alive_at = world.now
        world.step(answer_by=[link, relay], used=True)
    assert world.state.measured
    assert world.state.at(relay).meter.round_trip_s is not None
    assert 10 <= world.n_sent <= 20
    for _ in range(60):
        link.meter.alive_at = world.now
        world.step(answer_by=[link, relay])
    assert not world.state.measured


@pytest.mark.parametrize("n_relays", [1, 2])
def test_a_relay_is_measured_if_there_is_another_path(n_relays):
    relays = tuple(Relay() for _ in range(n_relays))
    world = World(relays=relays)
    choose_link(world.state, relays)
    for _ in range(50):
        world.step(answer_by=relays, used=True)
    assert (world.n_sent > 0) == (n_relays > 1)


def test_a_dead_relay_is_left_for_the_other_and_not_taken_back_unanswered():
    one, other = Relay(), Relay()
    world = World(relays=(one, other))
    assert choose_link(world.state, world.relays) is one
    world.state.seen_by(one, b"", world.now)
    for _ in range(10):
        world.step(answer_by=[one, other], used=True)
    died = world.now
    while choose_link(world.state, world.relays) is one:
        world.step(answer_by=[other], used=True)
    assert world.now - died < 1.6
    for _ in range(100):
        world.step(answer_by=[other], used=True)
        assert choose_link(world.state, world.relays) is other
