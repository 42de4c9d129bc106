"""One id, several connections: every order of coming, leaving, speaking and time.

All stories up to a length are told to a switch, with an observer who watches the id.
Whatever the story: the newest open connection that was not told to go has the id, a
frame for the id reaches it and no other, and the observer hears of the id's first
coming and of its last leaving, of nothing between.
"""

from collections.abc import Iterator

import pytest

from relay.frame_types import (
    FrameClass,
    Gone,
    Nack,
    NackReason,
    Presence,
    PresenceState,
    Recv,
    Send,
    Watch,
)
from relay.frames import encode_frame
from relay.registry import Peer
from tests.support.switch_world import SwitchWorld, peer_id_of

OBSERVER, TWIN = peer_id_of(1), peer_id_of(2)
MAX_OPEN = 4
COMES, WAITS = "comes", "waits"


def send(to: bytes, flow: int) -> bytes:
    frame = Send(
        destination=to,
        payload=b"",
        frame_class=FrameClass.CONTROL,
        flow=flow,
        ttl_ms=0,
        nack=True,
    )
    return encode_frame(frame)


class Story:
    """What was told so far; steps are COMES, WAITS, or the number of who leaves."""

    def __init__(self) -> None:
        self.world = SwitchWorld()
        self.now = 0.0
        self.observer = self.world.enter(OBSERVER)
        watch = encode_frame(Watch(peers=(TWIN,)))
        self.world.switch.receive(self.observer, watch, self.now)
        self.world.told(self.observer)
        self.open: list[Peer] = []  # the newest last
        self.n_flows = 0

    def choices(self) -> Iterator[object]:
        if len(self.open) < MAX_OPEN:
            yield COMES
        yield WAITS
        yield from range(len(self.open))

    def step(self, step: object) -> None:
        was_here = bool(self.standing())
        if step == COMES:
            self.open.append(self.world.enter(TWIN, self.now))
        elif step == WAITS:
            self.now += 11.0  # more than a parked connection is kept
            for peer in (self.observer, *self.open):
                peer.last_read = self.now
            self.world.switch.tick(self.now)
        else:
            self.world.leave(self.open.pop(step), self.now)
        self.check_news(was_here, is_here=bool(self.standing()))
        self.check_frames()

    def standing(self) -> list[Peer]:
        """Connections that may have the id, the newest last."""
        told_to_go = [peer for peer, _, _ in self.world.ended]
        return [peer for peer in self.open if peer not in told_to_go]

    def check_news(self, was_here: bool, is_here: bool) -> None:
        news = [
            frame
            for frame in self.world.told(self.observer, self.now)
            if isinstance(frame, Gone | Presence)
        ]
        if was_here == is_here:
            assert news == []
        elif is_here:
            assert news == [Presence(states=((TWIN, PresenceState.HERE),))]
        else:
            assert [type(frame) for frame in news] == [Gone]

    def check_frames(self) -> None:
        standing = self.standing()
        for peer in self.open:
            self.world.told(peer, self.now)  # its news
        self.n_flows += 1
        self.world.switch.receive(self.observer, send(TWIN, self.n_flows), self.now)
        for peer in self.open:
            got = [f for f in self.world.told(peer, self.now) if isinstance(f, Recv)]
            assert len(got) == (peer is standing[-1] if standing else 0)
        answers = self.world.told(self.observer, self.now)
        if not standing:
            [nack] = answers
            assert isinstance(nack, Nack)
            assert nack.reason is NackReason.NOT_HERE
        for peer in self.open:
            self.check_speech(peer, may=bool(standing) and peer is standing[-1])

    def check_speech(self, peer: Peer, *, may: bool) -> None:
        self.world.switch.receive(peer, send(OBSERVER, 0), self.now)
        assert bool(self.world.told(self.observer, self.now)) == may
        refused = [f for f in self.world.told(peer, self.now) if isinstance(f, Nack)]
        assert [n.reason for n in refused] == [NackReason.NOT_ALLOWED] * (not may)

    def end(self) -> None:
        while self.open:
            self.step(len(self.open) - 1)
        counters = self.world.switch.counters
        assert counters.accepted == counters.n_settled
        registry = self.world.switch.registry
        assert list(registry.active) == [OBSERVER]
        assert not registry.parked


def told(story: list[object]) -> Story:
    replay = Story()
    for step in story:
        replay.step(step)
    return replay


def stories(length: int, begun: list[object]) -> Iterator[list[object]]:
    """Every story of so many steps."""
    if len(begun) == length:
        yield begun
        return
    for choice in told(begun).choices():
        yield from stories(length, [*begun, choice])


@pytest.mark.parametrize("length", [6, pytest.param(7, marks=pytest.mark.slow)])
def test_every_story_of_one_id_ends_right(length: int) -> None:
    n_stories = 0
    for story in stories(length, [COMES]):
        told(story).end()
        n_stories += 1
    assert n_stories > 3 ** (length - 1)
