"""Nothing vanishes at the relay: the fate of each of a million random frames.

Peers come, leave, come twice, stop reading, send nonsense; frames of all classes and
sizes go to peers that are there or not, with and without a NACK wanted. Each frame has
a number, so that exactly one fate is shown for it: delivered once to whom it was for,
or NACKed once to who sent it, or counted. Then over real connections that break in
mid-write, where what was in a write that failed is counted as lost at close.
"""

import contextlib
import random
from collections import Counter

import pytest
import trio

from relay import ConnectionLost, RunningRelay, SendQueueFull
from relay.errors import ProtocolError
from relay.frame_types import FrameType, NackReason
from relay.frames import DATA_HEADER
from relay.registry import Peer
from relay.tokens import RateClass
from tests.support.nodes import until
from tests.support.relays import joined, key, running_relay
from tests.support.switch_world import SwitchWorld, peer_id_of

N_IDS = 14
NOBODY = 3  # the last ids never come
NACK = 0b100
SIZES = (0, 1, 40, 300, 2_000, 8_152, 20_000, 65_535, 65_536, 70_000)
WEIGHTS = (8, 8, 20, 40, 10, 8, 3, 1, 0.2, 0.2)
PAYLOADS = [bytes(size) for size in SIZES]
NONSENSE = (b"", b"\x10", b"\x10\x07" + bytes(60), b"\x10\x03" + bytes(60), b"\x7f")
SHARED_FLOW = 2**32 - 1
N_VISITORS = 8


class Frames:
    """What each frame's sender may still expect; `shared` counts those of one flow."""

    def __init__(self) -> None:
        self.open: dict[int, tuple[bytes, bytes, int]] = {}
        self.shared: Counter[tuple[bytes, bytes]] = Counter()
        self.n_nacks = 0
        self.reasons: Counter[NackReason] = Counter()

    def delivered(self, message: bytes, to: bytes) -> None:
        _, flags, _, flow, source = DATA_HEADER.unpack_from(message)
        if flow == SHARED_FLOW:
            self.shared[source, to] -= 1
            assert self.shared[source, to] >= 0
            return
        assert self.open.pop(flow) == (source, to, flags)

    def nacked(self, message: bytes, sender: bytes) -> None:
        reason, count = message[1], int.from_bytes(message[2:4], "big")
        flow, to = int.from_bytes(message[4:8], "big"), message[8:40]
        self.n_nacks += count
        self.reasons[NackReason(reason)] += count
        if flow == SHARED_FLOW:
            self.shared[sender, to] -= count
            assert self.shared[sender, to] >= 0
            return
        assert count == 1
        source, destination, flags = self.open.pop(flow)
        assert (source, destination) == (sender, to)
        assert flags & NACK


class Crowd:
    """Random steps of a crowd at one switch."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = SwitchWorld(max_queued_bytes=3_000_000)
        self.ids = [peer_id_of(number) for number in range(1, N_IDS + 1)]
        self.frames = Frames()
        self.now = 0.0
        self.n_sent = 0
        self.here: list[Peer] = []
        for _ in range(8):
            self.enter()

    def step(self) -> None:
        draw = self.rng.random()
        self.now += draw * 0.01
        if draw < 0.965:
            self.send()
        elif draw < 0.990:
            self.read()
        elif draw < 0.994:
            self.leave(self.rng.choice(self.here))
            self.enter()
        elif draw < 0.998:
            self.enter()
        elif draw < 0.999:
            self.world.switch.tick(self.now)
            self.now += self.rng.choice((0.0, 1.0, 3.0, 20.0))
        else:
            self.talk_nonsense()
        self.leave_as_told()

    def enter(self) -> None:
        rates = (RateClass.PHONE, RateClass.LAPTOP, RateClass.HUB)
        peer_id = self.rng.choice(self.ids[:-NOBODY])
        peer = self.world.enter(peer_id, self.now, rate_class=self.rng.choice(rates))
        self.here.append(peer)

    def send(self) -> None:
        rng = self.rng
        source, to = rng.choice(self.here), rng.choice(self.ids)
        flags = rng.randrange(3) | (NACK if rng.random() < 0.7 else 0)
        flow = SHARED_FLOW if rng.random() < 0.3 else self.n_sent
        ttl_ms = rng.choice((0, 50, 2_000, 60_000, 65_535))
        self.n_sent += 1
        head = DATA_HEADER.pack(FrameType.SEND, flags, ttl_ms, flow, to)
        payload = rng.choices(PAYLOADS, WEIGHTS)[0]
        if flow == SHARED_FLOW:
            self.frames.shared[source.peer_id, to] += 1
        else:
            self.frames.open[flow] = (source.peer_id, to, flags)
        self.world.switch.receive(source, head + payload, self.now)

    def read(self) -> None:
        peer = self.rng.choice(self.here)
        self.take(peer, self.rng.choice((1, 65_536, 10**6)))

    def take(self, peer: Peer, max_bytes: int) -> None:
        for message in self.world.written(peer, self.now, max_bytes=max_bytes):
            if message[0] == FrameType.RECV:
                self.frames.delivered(message, peer.peer_id)
            elif message[0] == FrameType.NACK:
                self.frames.nacked(message, peer.peer_id)

    def leave(self, peer: Peer) -> None:
        self.take(peer, 0)  # its own NACKs; what waits for it is reported as gone
        self.here.remove(peer)
        self.world.leave(peer, self.now)

    def talk_nonsense(self) -> None:
        peer = self.rng.choice(self.here)
        with pytest.raises(ProtocolError):
            self.world.switch.receive(peer, self.rng.choice(NONSENSE), self.now)
        self.leave(peer)

    def leave_as_told(self) -> None:
        ended, self.world.ended[:] = list(self.world.ended), []
        for peer, _, _ in ended:
            if peer in self.here:
                self.leave(peer)
        while len(self.here) < 4:
            self.enter()

    def end(self) -> None:
        """Everybody reads all there is; expiries make NACKs, so more than once."""
        for _ in range(3):
            for peer in list(self.here):
                self.take(peer, 10**9)


@pytest.mark.parametrize(
    "n_frames", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
)
def test_each_random_frame_has_exactly_one_fate(n_frames: int) -> None:
    crowd = Crowd(seed=n_frames)
    frames, counters = crowd.frames, crowd.world.switch.counters
    budget = crowd.world.switch.budget
    while crowd.n_sent < n_frames:
        crowd.step()
        assert budget.n_bytes <= budget.max_bytes
    crowd.end()
    assert budget.n_bytes == 0
    assert counters.accepted == n_frames == counters.n_settled
    # Told as often as counted as told: a NACK is never lost, nor told twice.
    assert frames.n_nacks == counters.nacked.total()
    assert frames.reasons == +counters.nacked
    # What is left over got no answer: not wanted, or its sender had gone. All counted.
    n_left = len(frames.open) + frames.shared.total()
    assert n_left == counters.counted.total()
    assert counters.delivered > n_frames // 10
    assert min(counters.nacked[NackReason(n)] for n in range(1, 7)) > 0


async def come_and_go(relay: RunningRelay, number: int, n_lives: int) -> None:
    """Join, flood everybody, and vanish in mid-write: closed, reset, or not reading."""
    rng = random.Random(number)
    others = [key(n).peer_id for n in range(1, N_VISITORS + 3)]  # two never come
    for _ in range(n_lives):
        with contextlib.suppress(ConnectionLost):
            async with joined(relay, key(number)) as connection:
                for _ in range(rng.randrange(60)):
                    payload = bytes(rng.choice((0, 100, 8_000, 60_000)))
                    with contextlib.suppress(SendQueueFull):
                        connection.send(
                            rng.choice(others), payload, nack=rng.random() < 0.5
                        )
                    if rng.random() < 0.2:
                        await trio.sleep(rng.random() * 0.004)
                if rng.random() < 0.5:
                    connection._transport.close()


@pytest.mark.parametrize("n_lives", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_over_real_connections_that_break_nothing_vanishes(n_lives: int) -> None:
    async def main() -> None:
        async with running_relay() as relay:
            async with trio.open_nursery() as nursery:
                for number in range(1, N_VISITORS + 1):
                    nursery.start_soon(come_and_go, relay, number, n_lives)
            await until(lambda: not relay.switch.registry.active)
            counters = relay.counters
            assert counters.accepted == counters.n_settled > 0
            assert counters.left.total() == counters.admitted == N_VISITORS * n_lives
            assert relay.switch.budget.n_bytes == 0
            assert not relay.switch.registry.parked

    trio.run(main)
